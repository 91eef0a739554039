//! What is sent back: something whole, or lines as they come.

use hyper::body::{Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// A response's body.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it, until it is taken.
    Whole(Option<Bytes>),
    /// Until the sender is gone.
    Lines(Receiver<Bytes>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::Whole(Some(bytes.into()))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take()),
            Body::Lines(lines) => lines.poll_recv(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Body::Lines(_) => SizeHint::default(),
        }
    }
}
