//! Functions that the library of collectives calls to query an accelerator. There is none: device
//! counts are 0, queries of a device return -1 or `NRT_INVALID`, memory is not written.

use crate::call::entry;
use crate::device_only::unsupported;
use std::ffi::{c_char, c_int, c_void};
use tenon_c_callers::arguments::{check, write_output};
use tenon_runtime::logical_core_size;

/// The result of a query for a device that does not exist.
const NONE: c_int = -1;

entry! {
    fn nec_inc_semaphore(_sem_inc_addr: *mut u32, _val: u32) -> () {}

    fn nec_get_dynamic_send_size_bytes(
        _dyn_input: *mut c_void, _data_type_sz: usize, _dst_rank: c_int, _rank_n: c_int,
    ) -> usize {
        0
    }

    fn nec_get_dynamic_send_offset_bytes(
        _dyn_input: *mut c_void, _data_type_sz: usize, _dst_rank: c_int, _rank_n: c_int,
    ) -> usize {
        0
    }

    fn nec_get_dynamic_recv_offset_bytes(
        _dyn_input: *mut c_void, _data_type_sz: usize, _src_rank: c_int, _rank_n: c_int,
    ) -> usize {
        0
    }

    fn nec_set_recv_size_bytes(
        _dyn_input: *mut c_void, _recv_size_bytes: usize, _data_type_sz: usize, _src_rank: c_int,
        _rank_n: c_int,
    ) -> () {
    }

    fn nec_get_device_count(_available_devices_array: *mut c_int, _array_size: u32) -> c_int {
        0
    }

    fn nec_get_device_pci_bdf(
        _neuron_dev: c_int, _domain: *mut u32, _bus_num: *mut u32, _pci_slot: *mut u8,
        _dev_func: *mut u8,
    ) -> c_int {
        NONE
    }

    fn nec_get_virtual_core_size(virtual_core_size: *mut u32) {
        // SAFETY: `virtual_core_size` is null or writable (header).
        unsafe { write_output(virtual_core_size, "virtual_core_size", logical_core_size()?) }
    }

    fn nec_get_version_info(version_info: *mut c_void) {
        check(version_info.cast::<u8>(), "version_info")?;
        Err(unsupported("there is no version of the interface to a library of collectives"))
    }

    fn nec_build_port_and_rid_map(
        _local_nec_dev_id: c_int, _mla_indexes: *mut c_int, _host_device_ids: *mut c_int,
        _count: c_int,
    ) {
        Err(unsupported("devices have no ports"))
    }

    fn nec_is_mla_available(_local_nec_dev_id: c_int, _mla_idx: c_int) -> bool {
        false
    }

    fn nec_mla_idx_to_rid(_local_nec_dev_id: c_int, _mla_idx: c_int) -> c_int {
        NONE
    }

    fn nec_rid_to_mla_idx(_local_nec_dev_id: c_int, _rid: c_int) -> c_int {
        NONE
    }

    fn nec_get_peer_mla_idx(_local_nec_dev_id: c_int, _mla_idx: c_int, _port: c_int) -> c_int {
        NONE
    }

    fn nec_get_p2p_pod_peer_node(
        _nec_dev_id: u32, _node: c_int, _port_distance: u32, _peer_node: *mut c_int,
    ) -> c_int {
        NONE
    }

    fn nec_pod_node_can_access_peer_node(
        _pod_type: u32, _local_rid: u32, _local_node_id: u32, _remote_rid: u32,
        _remote_node_id: u32, can_access_peer: *mut c_int,
    ) {
        check(can_access_peer, "can_access_peer")?;
        Err(unsupported("devices have no peers"))
    }

    fn nec_ndl_printk(_str: *mut c_char, _size: u32, _action: u32) -> () {}
}
