//! Answers to what is asked on the control socket.

use super::routes::{self, Action, Lost};
use super::views::{Failure, Limits, PlanView, Status, cores, hosts};
use super::{App, Body, openapi};
use crate::edit::{Edit, Fields};
use crate::operator::Refusal;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;

/// Answers a request.
pub(super) async fn respond(
    app: &App,
    method: &Method,
    path: &str,
    query: &str,
    body: &[u8],
) -> Response<Body> {
    let (action, parameters) = match routes::find(method, path) {
        Ok(found) => found,
        Err(lost) => return not_found(path, &lost),
    };
    let asked = saving(query).map(|save| Asked { app, parameters, save, body });
    match asked {
        Ok(asked) => asked.answer(action).await.unwrap_or_else(|refusal| refused(&refusal)),
        Err(refusal) => refused(&refusal),
    }
}

/// A request whose purpose is known.
struct Asked<'a> {
    app: &'a App,
    parameters: Vec<String>,
    /// Whether to write the change into the configuration file.
    save: bool,
    body: &'a [u8],
}

impl Asked<'_> {
    async fn answer(&self, action: Action) -> Result<Response<Body>, Refusal> {
        let operator = &self.app.operator;
        Ok(match action {
            Action::Status => {
                let picture = operator.glance().await?;
                json(&Status::of(&picture, operator.path(), operator.data_cores()))
            }
            Action::Reload => json(&operator.reload().await?),
            Action::Config => text("application/toml", operator.text().await),
            Action::CheckConfig => {
                let text = std::str::from_utf8(self.body)
                    .map_err(|_| Refusal::Invalid("the configuration is not UTF-8".to_owned()))?;
                json(&PlanView::from(operator.plan(text).await?))
            }
            Action::Subsystems => json(&operator.look().await?.subsystems),
            Action::Subsystem => {
                let nqn = self.parameter(0);
                let picture = operator.look().await?;
                let found = picture.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
                json(found.ok_or_else(|| Refusal::NotThere(format!("subsystem {nqn}")))?)
            }
            Action::Namespaces => json(&operator.look().await?.namespaces().collect::<Vec<_>>()),
            Action::Namespace => {
                let (nqn, nsid) = (self.parameter(0), self.number::<u32>(1)?);
                let picture = operator.look().await?;
                let found = picture.namespaces().find(|ns| ns.subsystem == nqn && ns.nsid == nsid);
                let none = || Refusal::NotThere(format!("namespace {nsid} of {nqn}"));
                json(found.ok_or_else(none)?)
            }
            Action::Hosts => json(&hosts(&*operator.look().await?)),
            Action::Listeners => json(&operator.look().await?.listeners),
            Action::Connections => json(&operator.look().await?.connections),
            Action::Connection => {
                let (nqn, cntlid) = (self.parameter(0), self.number::<u16>(1)?);
                let picture = operator.look().await?;
                let mut all = picture.connections.iter();
                let found = all.find(|found| found.subsystem == nqn && found.cntlid == cntlid);
                let none = || Refusal::NotThere(format!("controller {cntlid} of {nqn}"));
                json(found.ok_or_else(none)?)
            }
            Action::DropConnection => {
                json(&operator.drop_connection(self.parameter(0), self.number(1)?).await?)
            }
            Action::Cores => json(&cores(&*operator.look().await?, &operator.read_meters())),
            Action::Limits => json(&Limits::of(&operator.config().await.tuning)),
            Action::Events => {
                let lines = self.app.events.subscribe().ok_or(Refusal::Busy(
                    "as many listen to events as may: end one (nvmfd trace) first",
                ))?;
                let mut response = Response::new(Body::Lines(lines));
                let kind = HeaderValue::from_static("application/x-ndjson");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            Action::OpenApi => text("application/json", openapi::written()),
            Action::AddSubsystem
            | Action::SetSubsystem
            | Action::RemoveSubsystem
            | Action::AddNamespace
            | Action::SetNamespace
            | Action::RemoveNamespace
            | Action::AllowHost
            | Action::DenyHost
            | Action::AddListener
            | Action::RemoveListener
            | Action::SetLimits => json(&operator.edit(&self.edit(action)?, self.save).await?),
        })
    }

    /// The change of the configuration that is asked for.
    fn edit(&self, action: Action) -> Result<Edit, Refusal> {
        let nqn = || self.parameter(0).to_owned();
        Ok(match action {
            Action::AddSubsystem => Edit::AddSubsystem(self.fields()?),
            Action::SetSubsystem => Edit::SetSubsystem(nqn(), self.fields()?),
            Action::RemoveSubsystem => Edit::RemoveSubsystem(nqn()),
            Action::AddNamespace => Edit::AddNamespace(nqn(), self.fields()?),
            Action::SetNamespace => Edit::SetNamespace(nqn(), self.number(1)?, self.fields()?),
            Action::RemoveNamespace => Edit::RemoveNamespace(nqn(), self.number(1)?),
            Action::AllowHost => Edit::AllowHost(nqn(), self.parameter(1).to_owned()),
            Action::DenyHost => Edit::DenyHost(nqn(), self.parameter(1).to_owned()),
            Action::AddListener => Edit::AddListener(self.fields()?),
            Action::RemoveListener => Edit::RemoveListener(self.parameter(0).to_owned()),
            Action::SetLimits => Edit::Set("tuning", self.fields()?),
            other => unreachable!("{other:?} changes nothing in the configuration"),
        })
    }

    fn parameter(&self, at: usize) -> &str {
        &self.parameters[at]
    }

    fn number<T: std::str::FromStr>(&self, at: usize) -> Result<T, Refusal> {
        let text = self.parameter(at);
        text.parse().map_err(|_| Refusal::Invalid(format!("\"{text}\" is not a number in range")))
    }

    fn fields(&self) -> Result<Fields, Refusal> {
        serde_json::from_slice(self.body)
            .map_err(|error| Refusal::Invalid(format!("the body is not a JSON object: {error}")))
    }
}

/// Whether the query asks to save.
fn saving(query: &str) -> Result<bool, Refusal> {
    match query {
        "" | "save=false" => Ok(false),
        "save=true" => Ok(true),
        other => {
            let what =
                format!("\"?{other}\" is not known: ?save=true writes the change to the file");
            Err(Refusal::Invalid(what))
        }
    }
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec_pretty(value) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            text("application/json", bytes)
        }
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A good answer with that media type.
pub(super) fn text(kind: &'static str, body: impl Into<hyper::body::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let status = match refusal {
        Refusal::Config(_) | Refusal::Machine(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::NotThere(_) => StatusCode::NOT_FOUND,
        Refusal::Exists(_) => StatusCode::CONFLICT,
        Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
        Refusal::Ending | Refusal::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    failure(status, &refusal.to_string())
}

fn not_found(path: &str, lost: &Lost) -> Response<Body> {
    match lost {
        Lost::NoSuchPath => {
            let what = format!("there is no {path}: see /v1/openapi.json");
            failure(StatusCode::NOT_FOUND, &what)
        }
        Lost::Methods(methods) => {
            let methods = methods.join(", ");
            let what = format!("only {methods} can be done with {path}");
            let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, &what);
            if let Ok(methods) = HeaderValue::from_str(&methods) {
                response.headers_mut().insert(ALLOW, methods);
            }
            response
        }
    }
}

/// What is said to one change more than may wait for another.
pub(super) fn too_many_changes() -> Response<Body> {
    refused(&Refusal::Busy("as many changes are under way as may: wait until one is done"))
}

/// What a user hears who may not use the socket.
pub(super) fn forbidden(uid: u32) -> Response<Body> {
    let what = format!(
        "user {uid} may not use this socket: name it in users of [control] in the configuration"
    );
    failure(StatusCode::FORBIDDEN, &what)
}

/// A failure in words.
pub(super) fn failure(status: StatusCode, error: &str) -> Response<Body> {
    let mut response = json(&Failure { error: error.to_owned() });
    *response.status_mut() = status;
    response
}
