//! Connections, and the bounds on them.

use super::{App, Body, answer, pages};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

/// Requests at a time on one listener, streams of events included.
const MAX_REQUESTS: usize = 32;
/// Bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// Bytes of a request's body: a configuration may be one.
const MAX_BODY: usize = 16 << 20;
/// How long a request's head may take to arrive, and then its body.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// How long everything may take but a stream of events: as long as a disk takes to leave and
/// another to open, several times over.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A pause after the system had no descriptor for a connection.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// Serves operators on the control socket. `users` may use it besides root and the daemon's user.
pub(crate) async fn serve_control(app: Arc<App>, listener: UnixListener, users: Arc<[u32]>) {
    let slots = Arc::new(Semaphore::new(MAX_REQUESTS));
    loop {
        // Whoever comes when all are taken waits in the listener's queue.
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let allowed = may_use(&stream, &users);
                let app = app.clone();
                tokio::spawn(converse(stream, slot, move |request| {
                    let app = app.clone();
                    async move {
                        match allowed {
                            Ok(()) => control(app, request).await,
                            Err(uid) => answer::forbidden(uid),
                        }
                    }
                }));
            }
            Err(error) => {
                warn!(%error, "cannot take in a connection to the control socket");
                tokio::time::sleep(SHORT_OF_DESCRIPTORS).await;
            }
        }
    }
}

/// Serves monitoring, for reading only.
pub(crate) async fn serve_metrics(app: Arc<App>, listener: TcpListener) {
    let slots = Arc::new(Semaphore::new(MAX_REQUESTS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let app = app.clone();
                tokio::spawn(converse(stream, slot, move |request| {
                    let app = app.clone();
                    async move { pages::respond(&app, &request).await }
                }));
            }
            Err(error) => {
                warn!(%error, "cannot take in a connection to the metrics address");
                tokio::time::sleep(SHORT_OF_DESCRIPTORS).await;
            }
        }
    }
}

/// Whether the process at the other end may use the control socket; else its user.
fn may_use(stream: &UnixStream, users: &[u32]) -> Result<(), u32> {
    let Ok(peer) = stream.peer_cred() else { return Err(u32::MAX) };
    let own = rustix::process::geteuid().as_raw();
    let uid = peer.uid();
    if uid == 0 || uid == own || users.contains(&uid) { Ok(()) } else { Err(uid) }
}

/// One request and its response.
async fn converse<S, F>(
    stream: S,
    slot: OwnedSemaphorePermit,
    respond: impl Fn(Request<Incoming>) -> F,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<Body>>,
{
    let service = service_fn(|request| async { Ok::<_, Infallible>(respond(request).await) });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        // Some callers say that they have said everything, and listen on.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // A caller that breaks off or speaks no HTTP was told what there was to tell.
    let _ = conversation.await;
    drop(slot);
}

/// Answers a request on the control socket. What was begun is ended, also when the caller hangs up
/// or is not waited for any longer: half a change would be neither the old nor the new.
async fn control(app: Arc<App>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(REQUEST_WITHIN, collect(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(too_long)) => return too_long,
        Err(_) => {
            return answer::failure(
                StatusCode::REQUEST_TIMEOUT,
                "the request did not come in time",
            );
        }
    };
    let answer = tokio::spawn(async move {
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        answer::respond(&app, &head.method, path, query, &body).await
    });
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(fault)) => answer::failure(StatusCode::INTERNAL_SERVER_ERROR, &fault.to_string()),
        Err(_) => answer::failure(
            StatusCode::GATEWAY_TIMEOUT,
            "the daemon does not get it done: see its log, a disk may not answer",
        ),
    }
}

/// A whole body, or the response to one that cannot be had.
async fn collect(body: Incoming) -> Result<Bytes, Response<Body>> {
    let too_long = || {
        let most = crate::config::in_words(MAX_BODY as u64);
        let what = format!("the request's body is longer than {most}");
        answer::failure(StatusCode::PAYLOAD_TOO_LARGE, &what)
    };
    // Some say beforehand how long it is.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => Err(answer::failure(StatusCode::BAD_REQUEST, &error.to_string())),
    }
}
