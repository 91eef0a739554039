//! A writer of cpio archives in the "newc" format that the kernel unpacks as
//! its first root file system.

/// An archive being put together in memory.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

/// File type bits of `mode`: a folder.
const FOLDER: u32 = 0o040_000;
/// File type bits of `mode`: a regular file.
const REGULAR: u32 = 0o100_000;

impl Archive {
    /// Adds a folder; parents are to be added before.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER | 0o755, &[]);
    }

    /// Adds an executable file.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, REGULAR | 0o755, content);
    }

    /// Ends the archive and returns its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// One header of 13 eight-digit hexadecimal fields, the name with its NUL,
    /// and the content, each padded to a multiple of four bytes.
    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).expect("a file of the first root fits 4 GiB");
        let name = u32::try_from(path.len() + 1).expect("a short path");
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn entries_are_padded_to_four_bytes_and_end_with_the_trailer() {
        let mut archive = Archive::default();
        archive.folder("d");
        archive.file("d/f", b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        // Header 110 + "d\0" = 112 bytes, then the next header.
        assert_eq!(&bytes[112..118], b"070701");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("00000005"), "size of the file in hex");
        assert!(text.contains("TRAILER!!!"));
    }
}
