//! What monitoring reads: metrics, a page with live charts, and the numbers that the page draws.

use super::answer::{failure, text};
use super::views::{Core, Status, cores};
use super::{App, Body};
use crate::metrics;
use crate::operator::Refusal;
use crate::status::{Connection, Listener, Namespace};
use hyper::header::ACCEPT;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

/// The page. It asks for its numbers itself and needs nothing from elsewhere.
const PAGE: &str = include_str!("page.html");

/// The numbers of the page.
#[derive(Serialize)]
struct Numbers {
    status: Status,
    namespaces: Vec<Namespace>,
    connections: Vec<Connection>,
    cores: Vec<Core>,
    listeners: Vec<Listener>,
}

/// Answers a request at the metrics address.
pub(super) async fn respond<B>(app: &App, request: &Request<B>) -> Response<Body> {
    // Of an answer to HEAD the server sends the head only.
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return failure(StatusCode::METHOD_NOT_ALLOWED, "this address is for reading only");
    }
    let answer = match request.uri().path() {
        "/" => Ok(text("text/html; charset=utf-8", PAGE)),
        "/metrics" => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            scrape(app, accept.unwrap_or_default()).await
        }
        "/numbers.json" => numbers(app).await,
        _ => return failure(StatusCode::NOT_FOUND, "there are only /, /metrics and /numbers.json"),
    };
    answer.unwrap_or_else(|refusal| failure(StatusCode::SERVICE_UNAVAILABLE, &refusal.to_string()))
}

async fn scrape(app: &App, accept: &str) -> Result<Response<Body>, Refusal> {
    let picture = app.operator.look().await?;
    let cores = app.operator.read_meters();
    Ok(match metrics::acceptable(accept, picture, cores) {
        Ok((kind, lines)) => text(kind, lines),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    })
}

async fn numbers(app: &App) -> Result<Response<Body>, Refusal> {
    let picture = app.operator.look().await?;
    let numbers = Numbers {
        status: Status::of(&picture, app.operator.path(), app.operator.data_cores()),
        cores: cores(&picture, &app.operator.read_meters()),
        namespaces: picture.namespaces().cloned().collect(),
        connections: picture.connections.clone(),
        listeners: picture.listeners.clone(),
    };
    let bytes = serde_json::to_vec(&numbers).unwrap_or_default();
    Ok(text("application/json", bytes))
}
