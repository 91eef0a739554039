//! What an operator has to know of that could not be taken over as it was.

/// In the order of the file, each once.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// `place` is where it stands in the file, or what it is about.
    pub(super) fn add(&mut self, place: &str, what: impl AsRef<str>) {
        let note = format!("{place}: {}", what.as_ref());
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.0
    }
}
