//! Subsystems, namespaces, hosts and controllers: everything that is not the data path.
//!
//! # Contract
//! A [`Target`] is fed by the control thread: configuration calls, queues that open and close,
//! commands that queues handed on, and time. It answers with [`TargetAction`]s, to be carried out
//! in order. Every command fed to [`Target::on_command`] is answered by exactly one
//! [`TargetAction::Complete`], at once or later (Asynchronous Event Request, Abort), unless its
//! queue closes first.
