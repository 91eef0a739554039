//! RDMA provider over libibverbs and librdmacm
