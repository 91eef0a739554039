//! HTTP, for operators on the control socket and for monitoring on the metrics address.
//!
//! # Contract
//! Everything runs on the operator's thread. Requests are bounded in size, time and number, so that
//! a caller that is slow, huge or malformed costs its own connection and nothing else, and so are
//! connections ([`guests`]): those that ask for nothing make room for those that do. What is
//! asked of the daemon goes through the [`Operator`](crate::operator::Operator).

mod answer;
mod body;
mod guests;
mod openapi;
mod pages;
mod routes;
mod server;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use body::Body;
pub(crate) use routes::encode;
pub(crate) use server::{serve_control, serve_metrics};
#[cfg(test)]
pub(crate) use views::Stages;
pub(crate) use views::{Core, Failure, Host, PlanView, Status};

use crate::events::Events;
use crate::operator::Operator;

/// What requests are answered from.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) operator: Operator,
    pub(crate) events: Events,
}
