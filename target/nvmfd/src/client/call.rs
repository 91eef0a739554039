//! One request to a daemon and its answer.

use crate::http::Failure;
use crate::socket;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// How long a change may take: longer than the daemon takes to give up by itself.
const CHANGE_WITHIN: Duration = Duration::from_secs(90);
/// How long a look may take: the daemon answers at once, whatever its disks and cores do.
const LOOK_WITHIN: Duration = Duration::from_secs(8);
/// When whoever waits for a change is told for what.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// Why a daemon was not reached or did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Name the socket: `--socket`.
    #[error("this user has no usual place for the control socket: give it with --socket")]
    NoSocket,
    /// Start the daemon, or name its socket.
    #[error("no nvmfd at {}: {source}\n  hint: {hint}", .socket.display())]
    NotReached {
        /// Where it was looked for.
        socket: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// It is there and says nothing.
    #[error("the nvmfd at {} does not answer: {why}", .socket.display())]
    Silent {
        /// Where it was asked.
        socket: PathBuf,
        /// What is known of it, and what to do.
        why: String,
    },
    /// The conversation broke off.
    #[error("the daemon broke off: {0}")]
    BrokeOff(String),
    /// What it answered is not what this program knows: another version, perhaps.
    #[error("the daemon's answer cannot be read; is it of another version? {0}")]
    Unreadable(String),
    /// The daemon's own words.
    #[error("{0}")]
    Refused(String),
    /// The answer in JSON, of a change that was made in part or not at all.
    #[error("{0}")]
    Incomplete(String),
    /// What was to be sent cannot be.
    #[error("{0}")]
    Invalid(String),
}

/// The way to a daemon.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    runtime: Runtime,
}

impl Client {
    /// The way to the daemon at `socket`, or at the usual place.
    ///
    /// # Errors
    /// When there is no usual place.
    pub(crate) fn new(socket: Option<PathBuf>) -> Result<Client, CallError> {
        let socket = socket.or_else(socket::usual_place).ok_or(CallError::NoSocket)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CallError::BrokeOff(error.to_string()))?;
        Ok(Client { socket, runtime })
    }

    /// Asks for something.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(Method::GET, path, Vec::new())
    }

    /// Asks for something that is text.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn text(&self, path: &str) -> Result<String, CallError> {
        let bytes = self.answer(Method::GET, path, Vec::new())?;
        String::from_utf8(bytes.into()).map_err(|error| CallError::Unreadable(error.to_string()))
    }

    /// Asks, and reads the answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, CallError> {
        let bytes = self.answer(method, path, body)?;
        serde_json::from_slice(&bytes).map_err(|error| CallError::Unreadable(error.to_string()))
    }

    fn answer(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, CallError> {
        let (limit, change) = match method {
            Method::GET => (LOOK_WITHIN, false),
            _ => (CHANGE_WITHIN, true),
        };
        self.runtime.block_on(self.within(limit, async {
            let mut answer = pin!(async { whole(self.send(method, path, body).await?).await });
            if change {
                if let Ok(answer) = tokio::time::timeout(TELL_AFTER, answer.as_mut()).await {
                    return answer;
                }
                self.tell_of_waiting().await;
            }
            answer.await
        }))
    }

    /// Says of a change that takes its time what is waited for, and how long yet.
    async fn tell_of_waiting(&self) {
        let why = self.about_silence(TELL_AFTER).await;
        let left = CHANGE_WITHIN.saturating_sub(TELL_AFTER).as_secs();
        let socket = self.socket.display();
        let _ = writeln!(
            io::stderr(),
            "waiting for the nvmfd at {socket}, for {left} s more at most: {why}"
        );
    }

    async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.silent(limit).await),
        }
    }

    async fn silent(&self, limit: Duration) -> CallError {
        let why = self.about_silence(limit).await;
        CallError::Silent { socket: self.socket.clone(), why }
    }

    /// What can be said of a daemon that has said nothing itself for so long.
    async fn about_silence(&self, silence: Duration) -> String {
        let seconds = silence.as_secs();
        let peer = UnixStream::connect(&self.socket).await.and_then(|stream| stream.peer_cred());
        match peer.ok().and_then(|peer| peer.pid()) {
            Some(pid) if is_stopped(pid) => {
                format!("process {pid} is stopped; kill -CONT {pid} lets it go on")
            }
            Some(pid) => format!("process {pid} was silent for {seconds} s; its log may say why"),
            None => format!("it was silent for {seconds} s; its log may say why"),
        }
    }

    /// Asks for a stream of lines, and gives each to `on_line` until that says to stop or the
    /// daemon ends.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn lines(
        &self,
        path: &str,
        mut on_line: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), CallError> {
        self.runtime.block_on(async {
            let answer = self.send(Method::GET, path, Vec::new());
            let mut body = self.within(LOOK_WITHIN, answer).await?.into_body();
            let mut rest = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| CallError::BrokeOff(error.to_string()))?;
                rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    if !on_line(&line) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    /// Sends a request; an answer that is a refusal is an error.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, CallError> {
        let broke_off = |error: hyper::Error| CallError::BrokeOff(error.to_string());
        let stream = UnixStream::connect(&self.socket).await.map_err(|source| {
            let hint = match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "this user may not use it: see mode and users of [control]"
                }
                _ => "is it running? --socket names another control socket",
            };
            CallError::NotReached { socket: self.socket.clone(), source, hint }
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broke_off)?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(hyper::header::HOST, "nvmfd")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| CallError::Invalid(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(broke_off)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = whole(response).await?;
        Err(match serde_json::from_slice::<Failure>(&bytes) {
            Ok(failure) => CallError::Refused(failure.error),
            Err(_) => CallError::Refused(format!("the daemon says {status}")),
        })
    }
}

/// Whether a signal or a debugger has stopped the process.
fn is_stopped(pid: i32) -> bool {
    // "pid (name) state ...", where the name may have blanks and brackets.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, CallError> {
    let body = response.into_body().collect().await;
    Ok(body.map_err(|error| CallError::BrokeOff(error.to_string()))?.to_bytes())
}
