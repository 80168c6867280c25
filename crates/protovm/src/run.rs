//! Execution of a program.

use crate::abort::{Reason, Stop};
use crate::account::Account;
use crate::program::{Instruction, OnError, Operation, Select, Side, Step};
use crate::source::{Source, fields};
use crate::tree::Node;

/// The number of registers.
pub(crate) const REGISTERS: usize = 32;

type Run = Result<(), Stop>;

/// The state of a run apart from the cursors.
pub(crate) struct Machine<'a> {
    pub(crate) registers: &'a mut [Option<u64>; REGISTERS],
    pub(crate) account: &'a mut Account,
}

/// The cursor in the state: the selected node.
pub(crate) struct StateCursor<'a> {
    node: &'a mut Node,
    /// Set for the root: deletion makes it empty. Other nodes are removed from their parent.
    root: bool,
    /// Set if the innermost select has moved the cursor.
    moved: bool,
    /// Set if the node was deleted; the instruction that selected it removes it.
    deleted: bool,
}

impl<'a> StateCursor<'a> {
    pub(crate) fn root(node: &'a mut Node) -> Self {
        Self {
            node,
            root: true,
            moved: true,
            deleted: false,
        }
    }

    fn inner(node: &'a mut Node) -> Self {
        Self {
            root: false,
            ..Self::root(node)
        }
    }

    /// Returns the selected part of the state.
    fn node(&mut self) -> Result<&mut Node, Reason> {
        if self.deleted {
            return Err(Reason::Deleted);
        }
        Ok(self.node)
    }
}

impl Machine<'_> {
    /// Executes a list of instructions.
    pub(crate) fn list(
        &mut self,
        list: &[Instruction],
        patch: Source<'_>,
        state: &mut StateCursor<'_>,
    ) -> Run {
        for (index, instruction) in list.iter().enumerate() {
            match self.instruction(instruction, patch, state) {
                Ok(()) => {}
                Err(Stop::Error) => match instruction.on_error {
                    OnError::Continue => {}
                    OnError::Fail => return Err(Stop::Error),
                    OnError::Abort => return Err(Stop::from(Reason::ErrorNotAllowed).at(index)),
                },
                Err(abort) => return Err(abort.at(index)),
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        instruction: &Instruction,
        patch: Source<'_>,
        state: &mut StateCursor<'_>,
    ) -> Run {
        self.account.step(1)?;
        let nested = &instruction.nested;
        match &instruction.operation {
            Operation::Select(select) => return self.select(select, nested, patch, state),
            Operation::Load { side, register } => self.load(*side, *register, patch, state)?,
            Operation::Merge(how) => {
                let message = patch.message()?;
                state.node()?.merge(message, *how, self.account)?;
            }
            Operation::Set => state.node()?.set(patch, self.account)?,
            Operation::Delete => self.delete(state)?,
            Operation::Unknown => return Err(Reason::NoOperation.into()),
        }
        self.list(nested, patch, state)
    }

    fn load(
        &mut self,
        side: Side,
        register: u8,
        patch: Source<'_>,
        state: &mut StateCursor<'_>,
    ) -> Result<(), Reason> {
        let target = self.registers.get_mut(usize::from(register));
        let target = target.ok_or(Reason::BadRegister(register))?;
        let value = match side {
            Side::Patch => patch.scalar()?,
            Side::State | Side::Other => match state.node()? {
                Node::Scalar(scalar) => *scalar,
                _ => return Err(Reason::NoNumber),
            },
        };
        *target = Some(value.value());
        Ok(())
    }

    fn register(&self, register: Option<u8>) -> Result<u64, Reason> {
        let id = register.ok_or(Reason::NoRegisterNamed)?;
        let value = self.registers.get(usize::from(id));
        value
            .ok_or(Reason::BadRegister(id))?
            .ok_or(Reason::EmptyRegister(id))
    }

    fn delete(&mut self, state: &mut StateCursor<'_>) -> Result<(), Reason> {
        let (root, moved) = (state.root, state.moved);
        let node = state.node()?;
        if !root && !moved {
            return Err(Reason::DeleteNotSelected);
        }
        node.clear(self.account);
        state.deleted = !root;
        Ok(())
    }

    /// Executes instructions with one of the cursors moved.
    fn select(
        &mut self,
        select: &Select,
        nested: &[Instruction],
        patch: Source<'_>,
        state: &mut StateCursor<'_>,
    ) -> Run {
        if select.side == Side::Patch && select.create {
            return Err(Reason::CreateInPatch.into());
        }
        if select.side == Side::Patch || select.path.is_empty() {
            let moved = std::mem::replace(&mut state.moved, false);
            let result = self.in_patch(&select.path, nested, patch, state);
            state.moved = moved;
            return result;
        }
        let node = state.node()?;
        self.in_state(select, &select.path, nested, patch, node)
    }

    /// Follows a path in the patch.
    fn in_patch(
        &mut self,
        path: &[Step],
        nested: &[Instruction],
        patch: Source<'_>,
        state: &mut StateCursor<'_>,
    ) -> Run {
        let Some((step, rest)) = path.split_first() else {
            return self.list(nested, patch, state);
        };
        match *step {
            Step::Field(field) => {
                let patch = patch.enter(field, 0, self.account)?;
                self.in_patch(rest, nested, patch, state)
            }
            Step::At { field, index } => {
                let patch = patch.enter(field, index, self.account)?;
                // The index of a scalar is not defined.
                patch.message()?;
                self.in_patch(rest, nested, patch, state)
            }
            Step::Each(field) => {
                let message = patch.message()?;
                self.account.step(message.len() as u64 / 8)?;
                for found in fields(message).filter(|found| found.number == field) {
                    self.account.step(1)?;
                    self.in_patch(rest, nested, found.value.into(), state)?;
                }
                Ok(())
            }
            Step::Keyed { register, .. } => {
                self.register(register)?;
                Err(Reason::KeyInPatch.into())
            }
            Step::Invalid => Err(Reason::NoField.into()),
        }
    }

    /// Follows a path of at least one step in the state.
    fn in_state(
        &mut self,
        select: &Select,
        path: &[Step],
        nested: &[Instruction],
        patch: Source<'_>,
        node: &mut Node,
    ) -> Run {
        let Some((step, rest)) = path.split_first() else {
            return Ok(());
        };
        self.account.step(1)?;
        let may_create = select.create;
        let (map, position) = match *step {
            Step::Field(field) => {
                let map = node.message(self.account)?;
                let position = match map.find(field.into()) {
                    Err(_) if !may_create => return Err(Stop::Error),
                    _ => map.find_or_insert(field.into(), self.account)?,
                };
                if matches!(map.at(position), Node::Indexed(_) | Node::Keyed(_)) {
                    return Err(Reason::ListForValue(field).into());
                }
                (map, position)
            }
            Step::At { field, index } => {
                let map = node.message(self.account)?;
                let position = map.find_or_insert(field.into(), self.account)?;
                let list = map.at(position).indexed(self.account)?;
                if list.find(index.into()).is_err() && index as usize > list.len() {
                    return Err(Reason::IndexBehindEnd(index).into());
                }
                let position = list.find_or_insert(index.into(), self.account)?;
                (list, position)
            }
            Step::Keyed {
                field,
                key,
                register,
            } => {
                let value = self.register(register)?;
                let map = node.message(self.account)?;
                let position = match map.find(field.into()) {
                    Err(_) if !may_create => return Err(Stop::Error),
                    _ => map.find_or_insert(field.into(), self.account)?,
                };
                let list = map.at(position).keyed(key, self.account)?;
                let position = list.find_or_insert(value, self.account)?;
                (list, position)
            }
            Step::Each(field) => {
                if select.side == Side::Other {
                    return Err(Reason::LoopOverBoth.into());
                }
                let map = node.message(self.account)?;
                let Ok(position) = map.find(field.into()) else {
                    return Ok(());
                };
                for element in map.at(position).indexed(self.account)?.nodes_mut() {
                    self.account.step(1)?;
                    let mut element = StateCursor::root(element);
                    self.onward(select, rest, nested, patch, &mut element)?;
                }
                return Ok(());
            }
            Step::Invalid => return Err(Reason::NoField.into()),
        };
        let mut inner = StateCursor::inner(map.at(position));
        let result = self.onward(select, rest, nested, patch, &mut inner);
        if inner.deleted {
            map.remove(position, self.account);
        }
        result
    }

    /// Continues at a node of the state: follows the rest of the path, then executes the
    /// instructions.
    fn onward(
        &mut self,
        select: &Select,
        rest: &[Step],
        nested: &[Instruction],
        patch: Source<'_>,
        state: &mut StateCursor<'_>,
    ) -> Run {
        if rest.is_empty() {
            return self.list(nested, patch, state);
        }
        self.in_state(select, rest, nested, patch, state.node)
    }
}
