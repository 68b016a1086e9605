//! Refuses messages that the server library cannot read, with a reason and a record.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, body::Body, codegen::http};
use tower::{Layer, Service};

use hookjail_base::{
    model::InvalidField,
    refusal::{Reason, Refusal},
};

use super::{encode, service::Caller};
use crate::pipeline::{About, Pipeline};

/// A layer that wraps a service in [`Readable`].
#[derive(Clone, Debug)]
pub(super) struct ReadableLayer(pub(super) Arc<Pipeline>);

impl<S> Layer<S> for ReadableLayer {
    type Service = Readable<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Readable {
            inner,
            pipeline: Arc::clone(&self.0),
        }
    }
}

/// A service that replaces the library's statuses about messages that are too large or not protobuf.
#[derive(Clone, Debug)]
pub(super) struct Readable<S> {
    inner: S,
    pipeline: Arc<Pipeline>,
}

impl<S> Service<http::Request<Body>> for Readable<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Error = S::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<http::Response<Body>, Self::Error>> + Send + 'static>>;
    type Response = http::Response<Body>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let caller = Caller::new(request.extensions(), request.headers());
        let answer = self.inner.call(request);
        let pipeline = Arc::clone(&self.pipeline);
        Box::pin(async move {
            let response = answer.await?;
            let refusal = Status::from_header_map(response.headers())
                .as_ref()
                .and_then(unreadable);
            let (Some(refusal), Ok(caller)) = (refusal, caller) else {
                return Ok(response);
            };
            let (call, _) = caller.call(CancellationToken::new(), None);
            // Boxed: rare, and larger than the rest.
            let recorded = Box::pin(pipeline.malformed(About::malformed(&call, ""), refusal)).await;
            Ok(match encode(&recorded) {
                Err(status) => status.into_http(),
                Ok(_) => response,
            })
        })
    }
}

/// Returns the refusal for a status of the library; hookjail's own have details.
fn unreadable(status: &Status) -> Option<Refusal> {
    if !status.details().is_empty() {
        return None;
    }
    if status.code() == Code::OutOfRange {
        let problem = format!("or another field is too large: {}", status.message());
        let field = InvalidField::new("event.json", problem);
        return Some(Refusal::field(Reason::EventTooLarge, field));
    }
    (status.code() == Code::Internal).then(|| {
        let message = format!("the message cannot be read: {}", status.message());
        Refusal::new(Reason::InvalidRequest, message)
    })
}
