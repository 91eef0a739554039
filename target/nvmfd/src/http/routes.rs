//! What can be asked on the control socket: one table, from which requests are answered and the
//! OpenAPI document is written.

use super::views::{Core, Host, Limits, PlanView, Status};
use crate::operator::Outcome;
use crate::status::{Connection, Listener, Namespace, Subsystem};
use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Status,
    Reload,
    Config,
    CheckConfig,
    Subsystems,
    Subsystem,
    AddSubsystem,
    SetSubsystem,
    RemoveSubsystem,
    Namespaces,
    Namespace,
    AddNamespace,
    SetNamespace,
    RemoveNamespace,
    Hosts,
    AllowHost,
    DenyHost,
    Listeners,
    AddListener,
    RemoveListener,
    Connections,
    Connection,
    DropConnection,
    Cores,
    Limits,
    SetLimits,
    Events,
    OpenApi,
}

/// What a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// A JSON object with keys of that table of the configuration.
    Table(&'static str),
    /// A configuration's text.
    Config,
}

/// What is sent back when all is well.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// A configuration's text.
    Config,
    /// A line of JSON for each event, as they come.
    Events,
}

/// One thing that can be asked.
pub(super) struct Route {
    pub(super) method: Method,
    /// Parameters in braces.
    pub(super) path: &'static str,
    pub(super) action: Action,
    pub(super) summary: &'static str,
    pub(super) takes: Takes,
    pub(super) gives: Gives,
}

impl Route {
    /// Whether it changes the configuration.
    pub(super) fn is_edit(&self) -> bool {
        let other = matches!(self.action, Action::Reload | Action::DropConnection);
        let changes = matches!(self.gives, Gives::Json(_)) && self.method != Method::GET;
        changes && !other && self.takes != Takes::Config
    }
}

/// Everything that can be asked. Parameters come decoded.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/status",
        action: Action::Status,
        summary: "What the daemon is and how it is",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Status>),
    },
    Route {
        method: Method::POST,
        path: "/v1/reload",
        action: Action::Reload,
        summary: "Read the configuration file again and make what is different",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/config",
        action: Action::Config,
        summary: "The configuration in force, with changes that were not saved",
        takes: Takes::Nothing,
        gives: Gives::Config,
    },
    Route {
        method: Method::POST,
        path: "/v1/config/check",
        action: Action::CheckConfig,
        summary: "What a reload would do if the file had that text",
        takes: Takes::Config,
        gives: Gives::Json(schema::<PlanView>),
    },
    Route {
        method: Method::GET,
        path: "/v1/subsystems",
        action: Action::Subsystems,
        summary: "All subsystems",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Vec<Subsystem>>),
    },
    Route {
        method: Method::POST,
        path: "/v1/subsystems",
        action: Action::AddSubsystem,
        summary: "Add a subsystem, with or without namespaces",
        takes: Takes::Table("subsystem"),
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/subsystems/{nqn}",
        action: Action::Subsystem,
        summary: "One subsystem",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Subsystem>),
    },
    Route {
        method: Method::PATCH,
        path: "/v1/subsystems/{nqn}",
        action: Action::SetSubsystem,
        summary: "Change a subsystem: null takes a key out",
        takes: Takes::Table("subsystem"),
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/subsystems/{nqn}",
        action: Action::RemoveSubsystem,
        summary: "Remove a subsystem: its connections end",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces",
        action: Action::Namespaces,
        summary: "All namespaces",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Vec<Namespace>>),
    },
    Route {
        method: Method::POST,
        path: "/v1/subsystems/{nqn}/namespaces",
        action: Action::AddNamespace,
        summary: "Add a namespace",
        takes: Takes::Table("subsystem.namespace"),
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/subsystems/{nqn}/namespaces/{nsid}",
        action: Action::Namespace,
        summary: "One namespace",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Namespace>),
    },
    Route {
        method: Method::PATCH,
        path: "/v1/subsystems/{nqn}/namespaces/{nsid}",
        action: Action::SetNamespace,
        summary: "Change a namespace, as its size: null takes a key out",
        takes: Takes::Table("subsystem.namespace"),
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/subsystems/{nqn}/namespaces/{nsid}",
        action: Action::RemoveNamespace,
        summary: "Remove a namespace; its file stays",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/hosts",
        action: Action::Hosts,
        summary: "Hosts that are connected or allowed by name",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Vec<Host>>),
    },
    Route {
        method: Method::PUT,
        path: "/v1/subsystems/{nqn}/hosts/{host}",
        action: Action::AllowHost,
        summary: "Let a host use a subsystem",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/subsystems/{nqn}/hosts/{host}",
        action: Action::DenyHost,
        summary: "Let a host use a subsystem no more: its connections end",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/listeners",
        action: Action::Listeners,
        summary: "All listeners",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Vec<Listener>>),
    },
    Route {
        method: Method::POST,
        path: "/v1/listeners",
        action: Action::AddListener,
        summary: "Listen on another address",
        takes: Takes::Table("listener"),
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/listeners/{address}",
        action: Action::RemoveListener,
        summary: "Listen there no more: connections that came through it end",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/connections",
        action: Action::Connections,
        summary: "All controllers",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Vec<Connection>>),
    },
    Route {
        method: Method::GET,
        path: "/v1/subsystems/{nqn}/connections/{cntlid}",
        action: Action::Connection,
        summary: "One controller",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Connection>),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/subsystems/{nqn}/connections/{cntlid}",
        action: Action::DropConnection,
        summary: "End a controller's connections; its host may come again",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/cores",
        action: Action::Cores,
        summary: "What each core has done",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Vec<Core>>),
    },
    Route {
        method: Method::GET,
        path: "/v1/limits",
        action: Action::Limits,
        summary: "The settings of [tuning] in force",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<Limits>),
    },
    Route {
        method: Method::PATCH,
        path: "/v1/limits",
        action: Action::SetLimits,
        summary: "Change settings of [tuning]: null takes a key out",
        takes: Takes::Table("tuning"),
        gives: Gives::Json(schema::<Outcome>),
    },
    Route {
        method: Method::GET,
        path: "/v1/events",
        action: Action::Events,
        summary: "What happens from now on, a line of JSON each",
        takes: Takes::Nothing,
        gives: Gives::Events,
    },
    Route {
        method: Method::GET,
        path: "/v1/openapi.json",
        action: Action::OpenApi,
        summary: "This document",
        takes: Takes::Nothing,
        gives: Gives::Json(schema::<serde_json::Value>),
    },
];

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Why a request leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nothing has that path.
    NoSuchPath,
    /// These methods go with the path.
    Methods(Vec<&'static str>),
}

/// Finds what a request is for, with its parameters in the order of the path.
pub(super) fn find(method: &Method, path: &str) -> Result<(Action, Vec<String>), Lost> {
    let mut others = Vec::new();
    for route in ROUTES {
        let Some(parameters) = fits(route.path, path) else { continue };
        if route.method == *method {
            return Ok((route.action, parameters));
        }
        others.push(method_name(&route.method));
    }
    Err(if others.is_empty() { Lost::NoSuchPath } else { Lost::Methods(others) })
}

/// What answering a request costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// A look that waits for nothing.
    Look,
    /// It waits for changes that are under way.
    Change,
    /// As that, and it carries a configuration's text.
    Text,
}

/// What answering a request costs, also one that leads nowhere.
pub(super) fn weight(method: &Method, path: &str) -> Weight {
    match find(method, path) {
        Ok((Action::CheckConfig, _)) => Weight::Text,
        Ok((Action::Config | Action::Limits, _)) => Weight::Change,
        Ok(_) if *method != Method::GET => Weight::Change,
        _ => Weight::Look,
    }
}

pub(super) fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        _ => "DELETE",
    }
}

/// The parameters of a path that has a route's shape.
fn fits(shape: &str, path: &str) -> Option<Vec<String>> {
    let (shape, path): (Vec<_>, Vec<_>) = (shape.split('/').collect(), path.split('/').collect());
    if shape.len() != path.len() {
        return None;
    }
    let mut parameters = Vec::new();
    for (part, given) in shape.into_iter().zip(path) {
        if part.starts_with('{') {
            parameters.push(decode(given)?);
        } else if part != given {
            return None;
        }
    }
    Some(parameters)
}

/// Text with its percent escapes resolved (RFC 3986, 2.1); none when one is broken.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? << 4 | digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

/// The opposite of [`decode`]: everything escaped that has a meaning in a path.
pub(crate) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    text.bytes().fold(String::new(), |mut out, byte| {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
