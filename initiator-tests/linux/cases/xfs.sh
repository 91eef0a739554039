#: an XFS file system keeps its files through a remount and is clean
#: seconds 120
load xfs
target_up ram:512
host_connect --nr-io-queues 2
filesystem_check "mkfs.xfs -q -f" "xfs_repair -n"
host_disconnect
