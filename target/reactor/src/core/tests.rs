//! A core between a device and a disk that the test plays.
