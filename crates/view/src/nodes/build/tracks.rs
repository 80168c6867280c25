//! Nodes of tracks, and the nodes that contain them.

use ferretto_format::cgroup::Group;
use ferretto_tables::StringPool;
use ferretto_tables::schema::ArgValue;

use super::{FEW_COUNTERS, NodeBuilder, count};
use crate::details::arg_text;
use crate::nodes::order::Class;
use crate::nodes::{Content, Kind, NONE, Name};

impl<'a> NodeBuilder<'a> {
    /// Returns for each track if it or a descendant has events.
    fn used(&self) -> Vec<bool> {
        let table = &self.tables.track;
        let mut used = vec![false; table.len() as usize];
        for track in 0..table.len() {
            if self.rows.of_track(track) == 0 {
                continue;
            }
            let mut next = Some(track);
            while let Some(track) = next {
                match used.get_mut(track as usize) {
                    Some(mark) if !*mark => *mark = true,
                    _ => break,
                }
                next = table.parent_id().get(track);
            }
        }
        used
    }

    pub(super) fn tracks(&mut self, strings: &StringPool) {
        let used = self.used();
        let mut stack = Vec::new();
        for track in 0..self.tables.track.len() {
            // Parents first. They may follow their children in the table.
            let mut next = Some(track);
            while let Some(track) = next {
                let index = track as usize;
                if used.get(index) != Some(&true) || self.tracks[index] != NONE {
                    break;
                }
                if stack.contains(&track) || stack.len() > 256 {
                    break;
                }
                stack.push(track);
                next = self.tables.track.parent_id().get(track);
            }
            while let Some(track) = stack.pop() {
                self.track(track, strings);
            }
        }
    }

    fn owner(&mut self, track: u32, is_counter: bool) -> u32 {
        let table = &self.tables.track;
        let above = table.parent_id().get(track);
        if let Some(above) = above.and_then(|above| self.tracks.get(above as usize).copied())
            && above != NONE
        {
            return above;
        }
        if let Some(utid) = table.utid().get(track) {
            return self.thread(utid);
        }
        if let Some(upid) = table.upid().get(track) {
            let process = self.process(upid);
            let few = count(&self.process_counters, upid) <= FEW_COUNTERS;
            return if is_counter && !few {
                self.counter_group(process)
            } else {
                process
            };
        }
        match table.cpu().get(track) {
            Some(_) if !is_counter => self.cpu_group(table.machine_id().get(track)),
            _ if is_counter => {
                let machine = table.machine_id().get(track);
                let container = self.container_of(track);
                let container = container.and_then(|group| self.group(machine, &group));
                let above = container.unwrap_or_else(|| self.machine(machine));
                self.counter_group(above)
            }
            _ => self.machine(table.machine_id().get(track)),
        }
    }

    /// Returns the control group of a track with one of its counters.
    fn container_of(&self, track: u32) -> Option<Group<'a>> {
        let table = &self.tables.track;
        if self.strings.text(table.type_().get(track)) != "cgroup" {
            return None;
        }
        let set = table.dimension_arg_set_id().get(track)?;
        let mut args = self.tables.args.set(set);
        let path = args.find(|arg| self.strings.text(arg.key) == "cgroup")?;
        match path.value {
            ArgValue::Text(path) => Some(Group::new(self.strings.text(path))),
            _ => None,
        }
    }

    fn track(&mut self, track: u32, strings: &StringPool) {
        let table = &self.tables.track;
        let rows = self.rows.of_track(track);
        let depth = self.rows.depths.get(track as usize).copied().unwrap_or(0);
        let own_name = table.name().get(track);
        let (name, unit) = (Name::Pool(own_name), table.counter_unit().get(track));
        let event_type = strings.text(table.event_type().get(track));
        let owner = self.owner(track, event_type == "counter");
        if rows == 0 && strings.text(own_name).is_empty() {
            // A track without events has no node of its own.
            self.tracks[track as usize] = owner;
            return;
        }
        let key = table
            .track_group_id()
            .get(track)
            .map(|group| (owner, group));
        if let Some(draft) = key.and_then(|key| self.groups.get(&key).copied()) {
            let node = &mut self.drafts[draft as usize].node;
            if let Content::Slices(tracks) = &mut node.content {
                tracks.push(track);
                node.rows = node.rows.saturating_add(rows);
                node.depth = node.depth.saturating_add(depth);
                self.tracks[track as usize] = draft;
                return;
            }
        }
        let cpu = table.cpu().get(track);
        let is_nameless = strings.text(own_name).is_empty();
        let rank = cpu.map_or(0, i64::from);
        let is_threads = table.utid().get(track).is_some();
        // A track may have events of several kinds, such as slices on the track of a counter. Each
        // kind has a node.
        let mut contents = Vec::new();
        let slices = count(&self.rows.slices, track);
        if slices > 0 {
            let is_disk = strings.text(table.type_().get(track)) == "block_io";
            let class = match () {
                () if is_disk => Class::Subject,
                () if is_threads && is_nameless => Class::OwnSlices,
                // Tracks of the kernel.
                () if is_nameless && table.upid().get(track).is_none() => Class::Log,
                () => Class::Slices,
            };
            let content = Content::Slices(vec![track]);
            contents.push((class, Kind::Slices, content, slices, depth));
        }
        let counters = count(&self.rows.counters, track);
        if counters > 0 {
            let content = Content::Counter(track);
            contents.push((Class::Counter, Kind::Counter, content, counters, 1));
        }
        let values = count(&self.rows.values, track);
        if values > 0 {
            let content = Content::Values(track);
            contents.push((Class::Slices, Kind::Values, content, values, 1));
        }
        if contents.is_empty() {
            contents.push((Class::Slices, Kind::Group, Content::None, 0, 0));
        }
        for (class, kind, content, rows, depth) in contents {
            let name = match cpu.filter(|_| kind == Kind::Counter) {
                None if is_nameless && !is_threads => {
                    Name::Text(self.type_name(track, strings).into())
                }
                Some(cpu) => Name::Text(format!("{} of CPU {cpu}", strings.text(own_name)).into()),
                None => name.clone(),
            };
            let draft = self.add(owner, class, rank, kind, name);
            self.fill(draft, content, rows, depth);
            let node = &mut self.drafts[draft as usize].node;
            node.unit = unit;
            node.number = cpu.map(i64::from);
            // The first one stands for the track.
            if self.tracks[track as usize] == NONE {
                self.tracks[track as usize] = draft;
            }
            if let Some(key) = key.filter(|_| kind == Kind::Slices) {
                self.groups.insert(key, draft);
            }
            // Tracks of programs come before threads with CPU time alone.
            if kind == Kind::Slices {
                self.prefer(owner);
            }
        }
    }

    /// Names a track without a name: its type, and its dimensions.
    fn type_name(&self, track: u32, strings: &StringPool) -> String {
        let table = &self.tables.track;
        let mut name = strings.text(table.type_().get(track)).replace('_', " ");
        if let Some(set) = table.dimension_arg_set_id().get(track) {
            for arg in self.tables.args.set(set) {
                let key = strings.text(arg.key);
                if !matches!(key, "utid" | "upid") {
                    let key = key.replace('_', " ");
                    name += &format!(", {key} {}", arg_text(arg.value, strings));
                }
            }
        }
        name
    }
}
