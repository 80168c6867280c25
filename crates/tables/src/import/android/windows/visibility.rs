//! The layers of a snapshot in the order in which they are drawn, and which of them are visible.

use std::cell::Cell;

use ferretto_proto::fields::android::{
    active_buffer_proto as buffer, color_proto as color, corner_radii_proto as radii,
    display_proto, layer_proto as of, layers_proto, layers_snapshot_proto as snapshot,
    position_proto as position, region_proto, transform_proto as transform,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::geometry::{Matrix, Radii, Rect, covers};
use super::part::Part;

/// The flag of hidden layers, and the parent of layers that are on no screen.
const HIDDEN: u32 = 1;
const OFFSCREEN_ROOT: i32 = 0x7fff_fffd;
/// The maximum number of pairs of layers that are compared in one snapshot.
const MAX_PAIRS: u32 = 1 << 20;

/// A layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) part: Part<'a>,
    pub(super) id: Option<i32>,
    pub(super) stack: u32,
    parent: Option<i32>,
    z: i32,
    z_parent: i32,
    pub(super) is_hidden: bool,
    color: Option<Part<'a>>,
    pub(super) radii: Radii,
    screen: Option<Rect>,
}

/// The visibility of a layer.
#[derive(Debug, Default)]
pub(super) struct Visibility {
    pub(super) is_visible: bool,
    pub(super) reasons: Vec<String>,
    /// Layers by id: those that cover it, cover a part of it, and lie above it but can be seen
    /// through.
    pub(super) occluding: Vec<i32>,
    pub(super) partly_occluding: Vec<i32>,
    pub(super) covering: Vec<i32>,
}

impl<'a> Layer<'a> {
    fn read(part: Part<'a>) -> Self {
        let id = part.int(of::ID);
        let is_hidden =
            part.uint(of::FLAGS).unwrap_or(0) & HIDDEN != 0 || id == Some(OFFSCREEN_ROOT);
        Self {
            part,
            id,
            stack: part.uint(of::LAYER_STACK).unwrap_or(0),
            parent: part.int(of::PARENT),
            z: part.int(of::Z).unwrap_or(0),
            z_parent: part.int(of::Z_ORDER_RELATIVE_OF).unwrap_or(0),
            is_hidden,
            color: part.part(of::COLOR),
            radii: corner_radii(part),
            screen: part.part(of::SCREEN_BOUNDS).map(Rect::of_floats),
        }
    }

    fn is_root(&self) -> bool {
        self.parent.is_none_or(|parent| parent == -1)
    }

    /// Returns its rectangle on the screen.
    pub(super) fn screen(&self) -> Option<Rect> {
        self.screen
    }

    fn screen_in(&self, crop: &Rect) -> Option<Rect> {
        let screen = self.screen?;
        Some(if crop.is_empty() {
            screen
        } else {
            screen.crop(crop)
        })
    }

    pub(super) fn bounds(&self) -> Rect {
        let bounds = self.part.part(of::BOUNDS).unwrap_or_default();
        Rect::of_floats(bounds)
    }

    pub(super) fn alpha(&self) -> Option<f64> {
        let color = self.color.filter(|color| color.has(color::A))?;
        Some(color.float(color::A))
    }

    fn transform_type(&self) -> i32 {
        let transform = self.part.part(of::TRANSFORM).unwrap_or_default();
        transform.int(transform::TYPE).unwrap_or(0)
    }

    /// Returns its transformation.
    pub(super) fn matrix(&self) -> Matrix {
        let position = self.part.part(of::POSITION).unwrap_or_default();
        let (tx, ty) = (position.float(position::X), position.float(position::Y));
        let Some(transform) = self.part.part(of::TRANSFORM) else {
            return Matrix::shift(tx, ty);
        };
        let kind = transform.int(transform::TYPE).unwrap_or(0);
        if is_simple(kind) {
            return rotation(kind, tx, ty);
        }
        // Layers have these three in another order than displays.
        Matrix {
            dsdx: transform.float(transform::DSDX),
            dtdx: transform.float(transform::DSDY),
            tx,
            dtdy: transform.float(transform::DTDX),
            dsdy: transform.float(transform::DTDY),
            ty,
        }
    }

    fn has_buffer(&self) -> bool {
        let Some(buffer) = self.part.part(of::ACTIVE_BUFFER) else {
            return false;
        };
        let is_set = |number| buffer.uint(number).is_some_and(|value| value != 0);
        is_set(buffer::HEIGHT)
            || is_set(buffer::STRIDE)
            || is_set(buffer::WIDTH)
            || buffer.int(buffer::FORMAT).is_some_and(|value| value > 0)
    }

    fn has_valid_color(&self) -> bool {
        self.color.is_some_and(|part| {
            let numbers = [color::R, color::G, color::B];
            numbers.iter().all(|number| part.float(*number) >= 0.0)
        })
    }

    fn has_effects(&self) -> bool {
        let is_opaque = self.alpha().is_some_and(|alpha| alpha > 0.0);
        self.part.float(of::SHADOW_RADIUS) > 0.0 || is_opaque && self.has_valid_color()
    }

    fn has_zero_alpha(&self) -> bool {
        let alpha = self.alpha().unwrap_or(0.0);
        self.color.is_none() || alpha <= 0.0 && alpha > -1.0
    }

    fn has_empty_region(&self) -> bool {
        let region = self.part.part(of::VISIBLE_REGION).unwrap_or_default();
        let mut rects = region.parts(region_proto::RECT).map(Rect::of_integers);
        rects.all(|rect| rect.is_empty())
    }

    fn is_opaque(&self) -> bool {
        let is_marked = self.part.bool(of::IS_OPAQUE).unwrap_or(false);
        self.alpha().is_some_and(|alpha| alpha >= 1.0) && is_marked
    }
}

fn corner_radii(part: Part<'_>) -> Radii {
    let read = |number| {
        part.part(number).map(|part| {
            [radii::TL, radii::TR, radii::BL, radii::BR].map(|corner| part.float(corner))
        })
    };
    let own = read(of::CORNER_RADII).filter(|radii| radii.iter().any(|radius| *radius > 0.0));
    let mut radii = own.unwrap_or([part.float(of::CORNER_RADIUS); 4]);
    // These are drawn by the application.
    for (radius, more) in radii
        .iter_mut()
        .zip(read(of::EFFECTIVE_RADII).into_iter().flatten())
    {
        *radius += more;
    }
    Radii(radii)
}

/// The bits of the type of a transformation.
const SCALE: i32 = 4;
const FLIPS: i32 = 0x300;
const ROTATE_90: i32 = 0x400;
const INVALID: i32 = 0x8000;

/// Returns true if a transformation only rotates and shifts.
fn is_simple(kind: i32) -> bool {
    kind & (INVALID | SCALE) == 0
}

fn is_turned(kind: i32) -> bool {
    kind & ROTATE_90 != 0
}

/// Returns the matrix of a rotation by quarters of a turn.
fn rotation(kind: i32, tx: f64, ty: f64) -> Matrix {
    let is_flipped = kind & FLIPS == FLIPS;
    let (dsdx, dtdx, dtdy, dsdy) = match (is_turned(kind), is_flipped) {
        (true, true) => (0.0, -1.0, 1.0, 0.0),
        (false, true) => (-1.0, 0.0, 0.0, -1.0),
        (true, false) => (0.0, 1.0, -1.0, 0.0),
        (false, false) => (1.0, 0.0, 0.0, 1.0),
    };
    Matrix {
        dsdx,
        dtdx,
        tx,
        dtdy,
        dsdy,
        ty,
    }
}

/// Returns the area of a display that shows its layers.
pub(super) fn display_space(display: Part<'_>) -> Rect {
    let space = display.part(display_proto::LAYER_STACK_SPACE_RECT);
    Rect::of_integers(space.unwrap_or_default())
}

/// Returns the width and height of a display as it is turned.
pub(super) fn display_size(display: Part<'_>) -> (f64, f64) {
    use ferretto_proto::fields::android::size_proto as size;
    let part = display.part(display_proto::SIZE).unwrap_or_default();
    let number = |number| f64::from(part.int(number).unwrap_or(0));
    let (w, h) = (number(size::W), number(size::H));
    let transform = display.part(display_proto::TRANSFORM).unwrap_or_default();
    if is_turned(transform.int(transform::TYPE).unwrap_or(0)) {
        (h, w)
    } else {
        (w, h)
    }
}

/// Returns the transformation of a display.
pub(super) fn display_matrix(display: Part<'_>) -> Matrix {
    let Some(part) = display.part(display_proto::TRANSFORM) else {
        return Matrix::IDENTITY;
    };
    let kind = part.int(transform::TYPE).unwrap_or(0);
    let mut matrix = if is_simple(kind) {
        rotation(kind, 0.0, 0.0)
    } else {
        Matrix {
            dsdx: part.float(transform::DSDX),
            dtdx: part.float(transform::DTDX),
            tx: 0.0,
            dtdy: part.float(transform::DTDY),
            dsdy: part.float(transform::DSDY),
            ty: 0.0,
        }
    };
    let has_space = display.has(display_proto::LAYER_STACK_SPACE_RECT);
    if part.has(transform::TYPE) && has_space {
        let space = display_space(display);
        match (kind & FLIPS == FLIPS, is_turned(kind)) {
            (true, _) => (matrix.tx, matrix.ty) = (space.w, space.h),
            (false, true) => matrix.ty = space.h,
            (false, false) => {}
        }
    }
    matrix
}

/// The layers of a snapshot.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    snapshot: Part<'a>,
    /// All layers, in the order of the packet.
    pub(super) all: Vec<Layer<'a>>,
    /// The first index in `all` of each id.
    by_id: FxHashMap<i32, usize>,
    /// The indexes in `all` of the layers on displays, from the back to the front.
    pub(super) drawn: Vec<usize>,
    pairs: Cell<u32>,
}

impl<'a> Layers<'a> {
    /// Reads the layers of a `LayersSnapshotProto`.
    pub(super) fn read(part: Part<'a>) -> Self {
        let layers = part.part(snapshot::LAYERS).unwrap_or_default();
        let all: Vec<Layer<'_>> = layers
            .parts(layers_proto::LAYERS)
            .map(Layer::read)
            .collect();
        let mut by_id = FxHashMap::default();
        for (index, layer) in all.iter().enumerate() {
            if let Some(id) = layer.id {
                by_id.entry(id).or_insert(index);
            }
        }
        let mut layers = Self {
            snapshot: part,
            all,
            by_id,
            drawn: Vec::new(),
            pairs: Cell::new(MAX_PAIRS),
        };
        layers.drawn = layers.order();
        layers
    }

    pub(super) fn get(&self, id: i32) -> Option<&Layer<'a>> {
        self.all.get(*self.by_id.get(&id)?)
    }

    /// Returns the layers from the back to the front. Layers with a negative order are behind the
    /// layer that they refer to.
    fn order(&self) -> Vec<usize> {
        let mut roots = Vec::new();
        let mut children: FxHashMap<i32, Vec<usize>> = FxHashMap::default();
        for (index, layer) in self.all.iter().enumerate() {
            if layer.id.is_none() {
                continue;
            }
            let parent = layer.parent.unwrap_or(0);
            if layer.z_parent > 0 {
                children.entry(layer.z_parent).or_default().push(index);
            } else if layer.is_root() {
                roots.push(index);
            } else if parent > 0 {
                children.entry(parent).or_default().push(index);
            }
        }
        let key = |index: &usize| (self.all[*index].z, self.all[*index].id);
        roots.sort_by_key(key);
        children.values_mut().for_each(|list| list.sort_by_key(key));
        /// A step of the traversal.
        enum Step {
            Enter(usize),
            Draw(usize),
        }
        let mut drawn = Vec::new();
        let mut entered = FxHashSet::default();
        let mut steps: Vec<Step> = roots.iter().rev().map(|root| Step::Enter(*root)).collect();
        while let Some(step) = steps.pop() {
            let index = match step {
                Step::Draw(index) => {
                    drawn.push(index);
                    continue;
                }
                // Layers may refer to each other.
                Step::Enter(index) if !entered.insert(index) => continue,
                Step::Enter(index) => index,
            };
            let below = self.all[index].id.and_then(|id| children.get(&id));
            let below = below.map(Vec::as_slice).unwrap_or_default();
            let split = below.partition_point(|child| self.all[*child].z < 0);
            let enter = |child: &usize| Step::Enter(*child);
            steps.extend(below[split..].iter().rev().map(enter));
            steps.push(Step::Draw(index));
            steps.extend(below[..split].iter().rev().map(enter));
        }
        drawn
    }

    /// Returns the visibility of the drawn layers by id.
    pub(super) fn visibility(&self) -> FxHashMap<i32, Visibility> {
        let no_composition = self.snapshot.bool(snapshot::EXCLUDES_COMPOSITION_STATE);
        let no_composition = no_composition.unwrap_or(true);
        let crops: FxHashMap<u32, Rect> = self
            .snapshot
            .parts(snapshot::DISPLAYS)
            .filter(|display| display.has(display_proto::LAYER_STACK_SPACE_RECT))
            .map(|display| {
                let stack = display.uint(display_proto::LAYER_STACK).unwrap_or(0);
                (stack, display_space(display))
            })
            .collect();
        let (mut opaque, mut translucent) = (Vec::new(), Vec::new());
        let mut known = FxHashMap::default();
        for index in self.drawn.iter().rev() {
            let layer = &self.all[*index];
            let Some(id) = layer.id else {
                continue;
            };
            let crop = crops.get(&layer.stack).copied().unwrap_or_default();
            let mut visibility = Visibility {
                is_visible: self.is_visible_alone(layer, no_composition),
                ..Visibility::default()
            };
            if visibility.is_visible {
                self.compare(layer, &crop, (&opaque, &translucent), &mut visibility);
                let is_opaque = layer.is_opaque();
                let above = if is_opaque {
                    &mut opaque
                } else {
                    &mut translucent
                };
                above.push(*index);
            }
            if !visibility.is_visible {
                visibility.reasons = self.reasons(layer, no_composition, &visibility);
            }
            known.insert(id, visibility);
        }
        known
    }

    /// Compares a layer with those above it.
    fn compare(
        &self,
        layer: &Layer<'_>,
        crop: &Rect,
        (opaque, translucent): (&[usize], &[usize]),
        visibility: &mut Visibility,
    ) {
        let Some(own) = layer.screen_in(crop) else {
            return;
        };
        let above = |indexes: &[usize]| {
            let left = self.pairs.get();
            let count = indexes.len().min(left as usize);
            self.pairs.set(left - count as u32);
            let layers = indexes[..count].iter().map(|index| &self.all[*index]);
            let layers = layers.filter(|other| other.stack == layer.stack);
            let screens = layers.filter_map(|other| Some((*other, other.screen_in(crop)?)));
            screens.collect::<Vec<_>>()
        };
        for (other, screen) in above(opaque) {
            let id = other.id.unwrap_or(0);
            let is_rotated = other.transform_type() & INVALID != 0;
            if !is_rotated && covers((&screen, other.radii), (&own, layer.radii)) {
                visibility.is_visible = false;
                visibility.occluding.push(id);
            } else if screen.overlaps(&own) {
                visibility.partly_occluding.push(id);
            }
        }
        for (other, screen) in above(translucent) {
            if screen.overlaps(&own) {
                visibility.covering.push(other.id.unwrap_or(0));
            }
        }
    }

    fn is_hidden_by_parent(&self, layer: &Layer<'_>) -> bool {
        let mut layer = layer;
        for _ in 0..=self.all.len() {
            let parent = layer.parent.filter(|_| !layer.is_root());
            match parent.and_then(|parent| self.get(parent)) {
                Some(parent) if parent.is_hidden => return true,
                Some(parent) => layer = parent,
                None => return false,
            }
        }
        false
    }

    /// Returns true if it is visible where no other layer covers it.
    fn is_visible_alone(&self, layer: &Layer<'_>, no_composition: bool) -> bool {
        let is_transparent = layer.alpha().is_none_or(|alpha| alpha <= 0.0);
        if layer.is_hidden || is_transparent || self.is_hidden_by_parent(layer) {
            return false;
        }
        if !layer.has_buffer() && !layer.has_effects() {
            return false;
        }
        if no_composition {
            !layer.bounds().is_empty()
        } else {
            !layer.has_empty_region()
        }
    }

    /// Returns the reasons why a layer is not visible.
    fn reasons(
        &self,
        layer: &Layer<'_>,
        no_composition: bool,
        visibility: &Visibility,
    ) -> Vec<String> {
        let by_parent = format!("hidden by parent {}", layer.parent.unwrap_or(0));
        let has_region = layer.part.has(of::VISIBLE_REGION);
        let is_empty = layer.bounds().is_empty();
        let has_blur = layer.part.int(of::BACKGROUND_BLUR_RADIUS).unwrap_or(0) > 0;
        let is_colorless = layer.has_zero_alpha() || !layer.has_valid_color();
        let is_plain = !layer.has_buffer() && !layer.has_effects() && !has_blur;
        let reasons = [
            (layer.is_hidden, "flag is hidden"),
            (self.is_hidden_by_parent(layer), &*by_parent),
            (!layer.has_buffer(), "buffer is empty"),
            (layer.has_zero_alpha(), "alpha is 0"),
            (is_empty, "bounds is 0x0"),
            (is_empty && is_colorless, "crop is 0x0"),
            (!layer.matrix().is_valid(), "transform is invalid"),
            (is_plain, "does not have color fill, shadow or blur"),
            (
                has_region && layer.has_empty_region(),
                "visible region calculated by Composition Engine is empty",
            ),
            (!has_region && !no_composition, "null visible region"),
            (!visibility.occluding.is_empty(), "occluded"),
        ];
        let true_ones = reasons.into_iter().filter(|(is_true, _)| *is_true);
        true_ones.map(|(_, reason)| reason.to_owned()).collect()
    }
}
