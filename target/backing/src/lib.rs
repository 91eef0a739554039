//! Storage behind a namespace: file, block device, RAM, null, over io_uring
