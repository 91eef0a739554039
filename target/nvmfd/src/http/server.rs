//! Connections, and the bounds on them.

use super::guests::{Guests, Peer, Progress, Seat};
use super::routes::{self, Weight};
use super::{App, Body, answer, pages};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::UCred;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tracing::warn;

/// Changes under way at a time: they wait for one another, and looking waits for none of them. One more
/// waits for as long as a body may.
const MAX_CHANGES: usize = 64;
/// Bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// Bytes of a request's body that says what to change.
const MAX_BODY: usize = 1 << 20;
/// Bytes of a request's body that is a configuration.
const MAX_CONFIG: usize = 16 << 20;
/// Bytes of a body that any number of guests may be sending; [`LARGE_BODIES`] may send more.
const SMALL_BODY: usize = 64 << 10;
/// Larger bodies at a time.
const LARGE_BODIES: usize = 3;
/// How long a request's head may take to arrive, and then its body.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// How long everything may take but a stream of events: as long as a disk takes to leave and
/// another to open, several times over.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A pause after the system had no descriptor for a connection.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// What requests on the control socket share.
#[derive(Debug)]
struct Bounds {
    changes: Arc<Semaphore>,
    large: Semaphore,
}

/// Serves operators on the control socket. `users` may use it besides root and the daemon's user.
pub(crate) async fn serve_control(app: Arc<App>, listener: UnixListener, users: Arc<[u32]>) {
    let guests = Guests::default();
    let bounds = Arc::new(Bounds {
        changes: Arc::new(Semaphore::new(MAX_CHANGES)),
        large: Semaphore::new(LARGE_BODIES),
    });
    loop {
        let accepted = listener.accept().await.map(|(stream, _)| {
            let caller = stream.peer_cred().ok();
            (stream, caller)
        });
        let Some((stream, caller)) = taken_in(accepted, "control socket").await else { continue };
        let allowed = may_use(caller, &users);
        let (app, bounds) = (app.clone(), bounds.clone());
        seat(&guests, process(caller), stream, move |request, progress| {
            let (app, bounds) = (app.clone(), bounds.clone());
            async move {
                match allowed {
                    Ok(()) => control(app, &bounds, request, progress).await,
                    Err(uid) => answered(&progress, answer::forbidden(uid)),
                }
            }
        });
        // Whoever was let in says what it wants before the next one is let in.
        tokio::task::yield_now().await;
    }
}

/// Serves monitoring, for reading only.
pub(crate) async fn serve_metrics(app: Arc<App>, listener: TcpListener) {
    let guests = Guests::default();
    loop {
        let accepted: io::Result<(_, SocketAddr)> = listener.accept().await;
        let Some((stream, from)) = taken_in(accepted, "metrics address").await else { continue };
        let app = app.clone();
        seat(&guests, Peer::Address(from.ip()), stream, move |request, progress| {
            let app = app.clone();
            async move {
                progress.asked();
                answered(&progress, pages::respond(&app, &request).await)
            }
        });
        tokio::task::yield_now().await;
    }
}

/// A connection, unless the system had none to give.
async fn taken_in<T>(accepted: io::Result<T>, at: &str) -> Option<T> {
    match accepted {
        Ok(connection) => Some(connection),
        Err(error) => {
            warn!(%error, "cannot take in a connection to the {at}");
            tokio::time::sleep(SHORT_OF_DESCRIPTORS).await;
            None
        }
    }
}

/// Begins a conversation, if there is a seat for it.
fn seat<S, F>(
    guests: &Guests,
    peer: Peer,
    stream: S,
    respond: impl Fn(Request<Incoming>, Progress) -> F + Send + Sync + 'static,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    if let Some((seat, progress)) = guests.admit(peer) {
        tokio::spawn(converse(stream, seat, move |request| respond(request, progress.clone())));
    }
}

/// Which process is at the other end.
fn process(caller: Option<UCred>) -> Peer {
    let user = Peer::User(caller.map_or(u32::MAX, |caller| caller.uid()));
    caller.and_then(|caller| caller.pid()).map_or(user, Peer::Process)
}

/// Whether the process at the other end may use the control socket; else its user.
fn may_use(caller: Option<UCred>, users: &[u32]) -> Result<(), u32> {
    let uid = caller.ok_or(u32::MAX)?.uid();
    let own = rustix::process::geteuid().as_raw();
    if uid == 0 || uid == own || users.contains(&uid) { Ok(()) } else { Err(uid) }
}

/// One request and its response.
async fn converse<S, F>(stream: S, mut seat: Seat, respond: impl Fn(Request<Incoming>) -> F)
where
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
    let (mut conversation, mut dismissed) = (pin!(conversation), pin!(seat.dismissed()));
    poll_fn(|context| {
        let over = conversation.as_mut().poll(context).is_ready();
        if over { Poll::Ready(()) } else { dismissed.as_mut().poll(context) }
    })
    .await;
}

/// A response on its way; who hears events is not waited for.
fn answered(progress: &Progress, response: Response<Body>) -> Response<Body> {
    if matches!(response.body(), Body::Whole(_)) {
        progress.answered();
    }
    response
}

/// Answers a request on the control socket. What was begun is ended, also when the caller hangs up
/// or is not waited for any longer: half a change would be neither the old nor the new.
async fn control(
    app: Arc<App>,
    bounds: &Bounds,
    request: Request<Incoming>,
    progress: Progress,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let weight = routes::weight(&head.method, head.uri.path());
    let most = if weight == Weight::Text { MAX_CONFIG } else { MAX_BODY };
    let collected = tokio::time::timeout(REQUEST_WITHIN, collect(body, most, &bounds.large)).await;
    let body = match collected {
        Ok(Ok(body)) => body,
        Ok(Err(response)) => return answered(&progress, response),
        Err(_) => {
            let what = "the request did not come in time";
            let late = answer::failure(StatusCode::REQUEST_TIMEOUT, what);
            return answered(&progress, late);
        }
    };
    let turn = match weight {
        Weight::Look => None,
        Weight::Change | Weight::Text => {
            let turn = bounds.changes.clone().acquire_owned();
            match tokio::time::timeout(REQUEST_WITHIN, turn).await {
                Ok(turn) => turn.ok(),
                Err(_) => return answered(&progress, answer::too_many_changes()),
            }
        }
    };
    progress.asked();
    let answer = tokio::spawn(async move {
        let _turn = turn;
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        answer::respond(&app, &head.method, path, query, &body).await
    });
    let response = match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(fault)) => answer::failure(StatusCode::INTERNAL_SERVER_ERROR, &fault.to_string()),
        Err(_) => answer::failure(
            StatusCode::GATEWAY_TIMEOUT,
            "the daemon does not get it done: see its log, a disk may not answer",
        ),
    };
    answered(&progress, response)
}

/// A whole body of at most `most` bytes, or the response to one that cannot be had. What is more
/// than a small one waits for a place among the `large` ones.
async fn collect(
    mut body: Incoming,
    most: usize,
    large: &Semaphore,
) -> Result<Bytes, Response<Body>> {
    let too_long = || {
        let most = crate::config::in_words(most as u64);
        let what = format!("the request's body is longer than {most}");
        answer::failure(StatusCode::PAYLOAD_TOO_LARGE, &what)
    };
    // Some say beforehand how long it is.
    if body.size_hint().lower() > most as u64 {
        return Err(too_long());
    }
    let mut place = None;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let broken =
            |error: hyper::Error| answer::failure(StatusCode::BAD_REQUEST, &error.to_string());
        let frame = frame.map_err(broken)?;
        let Some(data) = frame.data_ref() else { continue };
        if whole.len() + data.len() > most {
            return Err(too_long());
        }
        if place.is_none() && whole.len() + data.len() > SMALL_BODY {
            place = large.acquire().await.ok();
        }
        whole.extend_from_slice(data);
    }
    Ok(whole.into())
}
