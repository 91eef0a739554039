//! `nvmfd top`: what the daemon does, once a second, on a terminal.
//!
//! It asks the control socket, as every other command does, and keeps two answers to tell rates.
//! - [`rates`] makes rows of them;
//! - [`view`] draws the rows.

mod rates;
#[cfg(test)]
mod tests;
mod view;

use crate::client::{CallError, Client};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rates::{Answers, Sample};
use std::time::{Duration, Instant};
use view::View;

/// How often the daemon is asked.
const EVERY: Duration = Duration::from_secs(1);

/// What to do after a key.
enum Next {
    GoOn,
    Leave,
}

/// Shows the view until `q`, Escape or Control-C.
pub(crate) fn top(client: &Client) -> Result<String, CallError> {
    // Before the screen is taken: a daemon that is not there is told as by every other command.
    let mut sample = Sample::first(ask(client)?, Instant::now());
    let mut terminal = ratatui::try_init().map_err(|error| {
        CallError::Invalid(format!("top needs a terminal ({error}); see nvmfd status and list"))
    })?;
    let mut view = View::default();
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame, &sample)) {
            break Err(CallError::Invalid(format!("cannot draw: {error}")));
        }
        match wait(&mut view, sample.at() + EVERY) {
            Ok(Next::Leave) => break Ok(String::new()),
            Ok(Next::GoOn) => {}
            Err(error) => break Err(CallError::Invalid(format!("cannot read keys: {error}"))),
        }
        if sample.at().elapsed() >= EVERY {
            match ask(client) {
                Ok(answers) => sample = sample.next(answers, Instant::now()),
                Err(error) => break Err(error),
            }
        }
    };
    ratatui::restore();
    ended
}

fn ask(client: &Client) -> Result<Answers, CallError> {
    Ok(Answers {
        status: client.get("/v1/status")?,
        namespaces: client.get("/v1/namespaces")?,
        connections: client.get("/v1/connections")?,
        cores: client.get("/v1/cores")?,
    })
}

/// Waits for a key, or until then.
fn wait(view: &mut View, until: Instant) -> std::io::Result<Next> {
    if !event::poll(until.saturating_duration_since(Instant::now()))? {
        return Ok(Next::GoOn);
    }
    if let Event::Key(key) = event::read()?
        && key.kind == KeyEventKind::Press
    {
        let control_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(Next::Leave),
            _ if control_c => return Ok(Next::Leave),
            KeyCode::Tab => view.next_table(),
            KeyCode::Char('s') | KeyCode::Right => view.next_order(),
            KeyCode::Left => view.previous_order(),
            KeyCode::Char('r') => view.reverse(),
            _ => {}
        }
    }
    Ok(Next::GoOn)
}
