//! The figures as charts: IOPS and memory by the count of each thing.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Series;

/// Of one chart, in pixels.
const SIZE: (u32, u32) = (520, 300);

/// Draws a row of two charts for each series.
pub(super) fn draw(all: &[Series], path: &Path) -> Result<()> {
    let size = (SIZE.0 * 2, SIZE.1 * all.len().max(1) as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    let draw = || -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        root.fill(&WHITE)?;
        for (series, row) in all.iter().zip(root.split_evenly((all.len(), 1))) {
            let (left, right) = row.split_horizontally(SIZE.0);
            let name = series.what.name();
            let points = |value: fn(&super::Point) -> f64| -> Vec<(f64, f64)> {
                series.points.iter().map(|p| (f64::from(p.count), value(p))).collect()
            };
            chart(&left, &format!("IOPS by {name}"), name, &points(|p| p.iops))?;
            let memory = points(|p| p.memory as f64 / f64::from(1 << 20));
            chart(&right, &format!("memory by {name} (MiB)"), name, &memory)?;
        }
        root.present()
    };
    draw().map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// One line, from zero up, over a logarithmic count.
fn chart<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    counted: &str,
    points: &[(f64, f64)],
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    // A logarithm has no place for 0: it is drawn at a half.
    let place = |count: f64| count.max(0.5);
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d((0.5..most(|p| p.0) * 1.2).log_scale(), 0.0..most(|p| p.1) * 1.1)?;
    chart
        .configure_mesh()
        .x_desc(counted)
        .x_label_formatter(&|count| format!("{count:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    let line: Vec<(f64, f64)> =
        points.iter().map(|&(count, value)| (place(count), value)).collect();
    chart.draw_series(LineSeries::new(line.iter().copied(), &BLUE))?;
    chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, BLUE.filled())))?;
    Ok(())
}
