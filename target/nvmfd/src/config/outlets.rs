//! Where operators and monitoring reach the daemon: the tables `[control]` and `[metrics]`.

use super::problem::Problem;
use super::raw::{RawControl, RawMetrics};
use super::{ControlSocket, units};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Longest path of a socket in bytes: what `sockaddr_un` has room for, and its end.
const MAX_SOCKET_PATH: usize = 107;

/// What `socket` says when there is to be none.
const NONE: &str = "none";

pub(super) fn control(raw: &RawControl, problems: &mut Vec<Problem>) -> ControlSocket {
    let enabled = raw.socket.as_ref().is_none_or(|socket| socket.get_ref() != NONE);
    let path = raw.socket.as_ref().filter(|_| enabled).map(|socket| path(socket, problems));
    let mode = raw.mode.as_ref().map_or(0o600, |mode| {
        let digits = mode.get_ref().trim_start_matches("0o");
        match u32::from_str_radix(digits, 8) {
            Ok(bits) if bits <= 0o777 => bits,
            _ => {
                let what = format!("control.mode: \"{}\" is not a file mode", mode.get_ref());
                problems.push(Problem::at(mode.span(), what).hint("write it as \"0660\""));
                0o600
            }
        }
    });
    let users = raw.users.as_ref().map_or(&[][..], |users| users.get_ref());
    let mut seen = Vec::new();
    for user in users {
        match uid(user, problems) {
            Some(uid) if seen.contains(&uid) => {
                let what = format!("control.users: {} is listed twice", user.get_ref());
                problems.push(Problem::at(user.span(), what));
            }
            uid => seen.extend(uid),
        }
    }
    ControlSocket { path, enabled, mode, users: seen }
}

fn path(socket: &Spanned<String>, problems: &mut Vec<Problem>) -> PathBuf {
    let text = socket.get_ref();
    if !Path::new(text).is_absolute() {
        let what = format!("control.socket: \"{text}\" is relative");
        let hint = "write the path from the root, as /run/nvmfd/control.sock; or \"none\"";
        problems.push(Problem::at(socket.span(), what).hint(hint));
    }
    no_zero_byte("control.socket", socket, problems);
    if text.len() > MAX_SOCKET_PATH {
        let what =
            format!("control.socket: is longer than the {MAX_SOCKET_PATH} bytes of a socket");
        problems.push(Problem::at(socket.span(), what));
    }
    PathBuf::from(text)
}

/// The system takes no path with a byte of zero in it.
pub(super) fn no_zero_byte(key: &str, path: &Spanned<String>, problems: &mut Vec<Problem>) {
    if path.get_ref().contains('\0') {
        let what = format!("{key}: has a byte of zero (\\u0000) in it, which no path may have");
        problems.push(Problem::at(path.span(), what).hint("take it out"));
    }
}

/// The number of a user given by name or number.
fn uid(user: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<u32> {
    let name = user.get_ref();
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    if found.is_none() {
        problems.push(
            Problem::at(user.span(), format!("control.users: there is no user \"{name}\""))
                .hint("give a name of /etc/passwd, or a number"),
        );
    }
    found
}

pub(super) fn metrics(raw: &RawMetrics, problems: &mut Vec<Problem>) -> Option<SocketAddr> {
    let given = raw.address.get_ref();
    let what = match given.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => return Some(address),
        Ok(_) => "the port must be 1 to 65535".to_owned(),
        // The usual words for an address that is none.
        Err(_) => match units::address(given, units::interface_index) {
            Ok(_) => format!("\"{given}\" has no port"),
            Err(what) => what,
        },
    };
    problems.push(
        Problem::at(raw.address.span(), format!("metrics.address: {what}"))
            .hint("write it as 127.0.0.1:9420"),
    );
    None
}
