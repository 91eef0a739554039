//! One thread per core: poll, turn, flush, sleep
