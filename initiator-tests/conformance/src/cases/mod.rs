//! The cases, by the part of the protocol they are about.
//!
//! A case is a function of a [`Place`]; it panics when the target does what it must not. Each
//! starts a target of its own, so cases know nothing of each other.

mod admin;
mod associations;
mod discovery;
mod fabrics;
mod features;
mod fused;
mod io;
mod logs;
mod malformed;
mod portions;
mod sgl;
mod tables;
mod wrong;

use crate::{Place, Session};

/// One case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The behaviour that it shows.
    pub name: &'static str,
    /// Shows it, or panics.
    pub run: fn(&dyn Place),
}

/// All cases: what they are about, and they.
pub const ALL: &[(&str, &[Case])] = &[
    ("admin", admin::CASES),
    ("associations", associations::CASES),
    ("discovery", discovery::CASES),
    ("fabrics", fabrics::CASES),
    ("features", features::CASES),
    ("fused", fused::CASES),
    ("io", io::CASES),
    ("logs", logs::CASES),
    ("malformed", malformed::CASES),
    ("portions", portions::CASES),
    ("sgl", sgl::CASES),
    ("tables", tables::CASES),
    ("wrong", wrong::CASES),
];

/// A list of cases named like their functions.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        &[$(Case { name: stringify!($name), run: $name }),*]
    };
}
use cases;

/// A case of one session with a usual target.
fn with_session(place: &dyn Place, case: impl FnOnce(&mut Session)) {
    let target = place.target();
    case(&mut Session::new(&target));
}
