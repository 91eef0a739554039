//! Reservation Notification log page.

codes! {
    /// What happened (RNLPT).
    pub struct ReservationNotificationKind(u8) {
        EMPTY = 0, "empty log page";
        REGISTRATION_PREEMPTED = 1, "registration preempted";
        RESERVATION_RELEASED = 2, "reservation released";
        RESERVATION_PREEMPTED = 3, "reservation preempted";
    }
}

layout! {
    /// Reservation Notification, log page 80h: the oldest notification,
    /// which reading takes away (NVMe Base 2.1, 5.1.12.1.32).
    pub struct ReservationNotification[64] {
        /// Number of the notification; from FFFFFFFFFFFFFFFFh to 1, as 0 is
        /// for the empty page.
        0 => pub count: u64,
        /// What happened.
        8 => pub kind: ReservationNotificationKind,
        /// Further notifications that wait, at most 255.
        9 => pub available: u8,
        /// Namespace.
        12 => pub nsid: u32,
    }
}
