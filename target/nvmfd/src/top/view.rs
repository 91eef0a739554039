//! The screen of `nvmfd top`.

use super::rates::{CORES, Cell, HOSTS, NAMESPACES, Sample};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Row, Table};
use std::cmp::Ordering;

/// How one table is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Order {
    column: usize,
    reversed: bool,
}

/// What the user chose.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Which table the keys are for.
    chosen: usize,
    orders: [Order; 3],
}

const TITLES: [&str; 3] = ["namespaces", "hosts", "cores"];
/// Columns of the screen between two of a table.
const SPACING: usize = 2;
const HEADERS: [&[&str]; 3] = [&NAMESPACES, &HOSTS, &CORES];

impl View {
    pub(super) fn next_table(&mut self) {
        self.chosen = (self.chosen + 1) % TITLES.len();
    }

    pub(super) fn next_order(&mut self) {
        let columns = HEADERS[self.chosen].len();
        let order = &mut self.orders[self.chosen];
        order.column = (order.column + 1) % columns;
    }

    pub(super) fn previous_order(&mut self) {
        let columns = HEADERS[self.chosen].len();
        let order = &mut self.orders[self.chosen];
        order.column = (order.column + columns - 1) % columns;
    }

    pub(super) fn reverse(&mut self) {
        let order = &mut self.orders[self.chosen];
        order.reversed = !order.reversed;
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, sample: &Sample) {
        let tables = [sample.namespaces(), sample.hosts(), sample.cores()];
        let [first, second, third] = [0, 1, 2].map(|at| tables[at].len() as u16 + 3);
        let rows = Layout::vertical([
            Constraint::Length(1),
            Constraint::Max(first),
            Constraint::Max(second),
            Constraint::Max(third),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [head, namespaces, hosts, cores, _, keys] = rows.areas(frame.area());
        let status = sample.status();
        let [read, written, commands] = sample.totals();
        let down = match status.listeners_down {
            0 => String::new(),
            down => format!(", listeners DOWN: {down}"),
        };
        let trouble = match status.troubles.len() {
            0 => String::new(),
            disks => format!(", disks in TROUBLE: {disks}"),
        };
        let line = format!(
            "nvmfd {}  up {} s  {} controllers, {} queues{down}{trouble}  {commands} commands/s, read {read}/s, \
             written {written}/s",
            status.version, status.uptime as u64, status.connections, status.queues,
        );
        frame.render_widget(Line::from(line).bold(), head);
        for (at, (rows, area)) in tables.into_iter().zip([namespaces, hosts, cores]).enumerate() {
            self.table(frame, area, at, rows);
        }
        let keys_line = "q quit  Tab next table  s or arrows sort by column  r reverse";
        frame.render_widget(Line::from(keys_line).dim(), keys);
    }

    fn table(&self, frame: &mut Frame<'_>, area: Rect, at: usize, mut rows: Vec<Vec<Cell>>) {
        let order = self.orders[at];
        sort(&mut rows, order);
        let header = HEADERS[at];
        let mut widths: Vec<usize> = (0..header.len())
            .map(|column| {
                let cells = rows.iter().map(|row| row[column].shown.chars().count());
                // The arrow and its space.
                let arrow = if column == order.column { 2 } else { 0 };
                let title = header[column].chars().count() + arrow;
                cells.chain([title]).max().unwrap_or(0)
            })
            .collect();
        let between = SPACING * (header.len() - 1);
        let border_columns = 2;
        squeeze(&mut widths, usize::from(area.width).saturating_sub(between + border_columns));
        let titles =
            header.iter().enumerate().map(|(column, title)| match column == order.column {
                true if order.reversed => format!("{title} ▲"),
                true => format!("{title} ▼"),
                false => (*title).to_owned(),
            });
        let chosen = at == self.chosen;
        let border = if chosen { Style::new() } else { Style::new().add_modifier(Modifier::DIM) };
        let cells = |row: &Vec<Cell>| {
            let cells = row.iter().zip(&widths);
            Row::new(cells.map(|(cell, width)| shortened(&cell.shown, *width)).collect::<Vec<_>>())
        };
        let table = Table::default()
            .header(Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD)))
            .rows(rows.iter().map(cells))
            .widths(widths.iter().map(|width| Constraint::Length(*width as u16)))
            .column_spacing(SPACING as u16)
            .block(Block::bordered().title(TITLES[at]).border_style(border));
        frame.render_widget(table, area);
    }
}

/// Takes from the widest of the columns until all fit into the room: names, whose middle can be left
/// out, before numbers, which are narrower.
fn squeeze(widths: &mut [usize], room: usize) {
    let mut too_much = widths.iter().sum::<usize>().saturating_sub(room);
    while too_much > 0 {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > 0) else { return };
        *widest -= 1;
        too_much -= 1;
    }
}

/// The text in so many columns, without its middle if it has more: NQNs begin alike and often differ in
/// their ends.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = text.chars().take(kept / 2);
    let tail = text.chars().skip(length - kept.div_ceil(2));
    head.chain(['…']).chain(tail).take(width).collect()
}

/// The largest first, words from A to Z; or the other way round.
fn sort(rows: &mut [Vec<Cell>], order: Order) {
    rows.sort_by(|a, b| {
        let (a, b) = (&a[order.column], &b[order.column]);
        let by_value = b.value.partial_cmp(&a.value).unwrap_or(Ordering::Equal);
        let by_words = match by_value {
            // Numbers that are equal show the same.
            Ordering::Equal => a.shown.cmp(&b.shown),
            other => other,
        };
        if order.reversed { by_words.reverse() } else { by_words }
    });
}
