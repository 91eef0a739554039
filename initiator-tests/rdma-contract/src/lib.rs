//! What every provider of the RDMA seam owes, as checks over its traits alone.
//!
//! Each check gets two fresh ends ([`Bench`]) and panics when the provider breaks a rule of the
//! seam. No provider is named here: whoever has one implements [`Provider`] and runs [`trials`].
//! - soft-roce: `tests/soft_roce.rs`, natively;
//! - the simulator's network: `tests/rdma_contract.rs` of `sim`;
//! - verbs: the program `verbs-selftest`, which `cargo xtask linux` runs in a machine with the
//!   kernel's software devices.

mod bench;
mod connections;
mod data;
mod failures;

pub use bench::{Bench, Link, PATIENCE, Provider, Role, SHARED_RECV_DEPTH, Side, take};
use libtest_mimic::Trial;

/// A check.
pub type Check<P> = fn(&mut Bench<P>);

/// The checks that apply to a provider, with their names.
pub fn checks<P: Provider>() -> Vec<(&'static str, Check<P>)> {
    let mut checks: Vec<(&'static str, Check<P>)> = vec![
        ("private_data_arrives_both_ways", connections::private_data_arrives_both_ways),
        ("a_reject_carries_its_data", connections::a_reject_carries_its_data),
        ("private_data_of_the_largest_size_arrives", connections::private_data_of_the_largest_size),
        ("nobody_listening_refuses", connections::nobody_listening_refuses),
        ("a_missing_address_is_told_once", connections::a_missing_address_is_told_once),
        ("the_end_is_told_to_the_other_side", connections::the_end_is_told_to_the_other_side),
        ("disconnecting_before_the_accept", connections::disconnecting_before_the_accept),
        ("a_hundred_connections_leak_nothing", connections::a_hundred_connections_leak_nothing),
        ("many_connections_work_at_once", connections::many_connections_work_at_once),
        ("sends_arrive_both_ways", data::sends_arrive_both_ways),
        ("sends_arrive_in_a_shared_queue", data::sends_arrive_in_a_shared_queue),
        ("a_short_send_is_copied_when_posted", data::a_short_send_is_copied_when_posted),
        ("a_write_arrives_before_its_send", data::a_write_arrives_before_its_send),
        ("reads_at_depth_bring_the_bytes", data::reads_at_depth_bring_the_bytes),
        ("a_send_invalidates_the_key", data::a_send_invalidates_the_key),
        ("keys_are_reused_safely", data::keys_are_reused_safely),
        ("signaled_work_completes_once_in_order", data::signaled_work_completes_once_in_order),
        ("failing_flushes_receives_in_order", failures::failing_flushes_receives_in_order),
        ("work_posted_after_a_failure_is_flushed", failures::work_posted_after_a_failure),
        ("sends_without_a_receive_are_flushed", failures::sends_without_a_receive_are_flushed),
        ("a_late_receive_is_found_soon", failures::a_late_receive_is_found_soon),
        ("a_disconnect_in_flight_loses_nothing", failures::a_disconnect_in_flight_loses_nothing),
        ("a_wrong_key_is_refused", failures::a_wrong_key_is_refused),
        ("a_closed_key_is_refused", failures::a_closed_key_is_refused),
        ("a_write_behind_opened_memory_is_refused", failures::a_write_behind_opened_memory),
        (
            "a_write_to_memory_opened_for_reading_is_refused",
            failures::a_write_to_memory_opened_for_reading,
        ),
        ("a_read_with_a_wrong_key_fails", failures::a_read_with_a_wrong_key),
        ("an_overlong_message_fails_its_receive", failures::an_overlong_message),
        ("shared_receives_outlive_a_connection", failures::shared_receives_outlive_a_connection),
    ];
    if P::SLEEPS {
        checks.push(("a_sleeper_is_woken", data::a_sleeper_is_woken));
    }
    checks
}

/// Every check as one test of a test program; `provider` makes a new one for each.
pub fn trials<P: Provider + 'static>(
    provider: impl Fn() -> P + Clone + Send + 'static,
) -> Vec<Trial> {
    let trial = |(name, check): (&'static str, Check<P>)| {
        let provider = provider.clone();
        Trial::test(name, move || {
            check(&mut Bench::new(provider()));
            Ok(())
        })
    };
    checks::<P>().into_iter().map(trial).collect()
}
