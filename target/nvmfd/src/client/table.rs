//! Tables for a terminal.

/// Rows under a header, each column as wide as it must be.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = header.map(|title| title.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(&widths, header.iter().copied());
    for row in rows {
        text.push_str(&line(&widths, row.iter().map(String::as_str)));
    }
    text
}

fn line<'a>(widths: &[usize], cells: impl Iterator<Item = &'a str>) -> String {
    let cells = cells.zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    let line = cells.collect::<Vec<_>>().join("  ");
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_aligned_and_lines_have_no_blanks_at_their_end() {
        let rows = [["a".into(), "1".into()], ["longer".into(), String::new()]];
        assert_eq!(table(["NAME", "N"], &rows), "NAME    N\na       1\nlonger\n");
    }
}
