//! Calls that execute models, with what they keep: outputs, bindings, sessions, asynchronous executions.

use crate::arguments::{EXPECTED_ENDS, bits};
use crate::call;
use crate::caller::{Caller, read_text};
use crate::dlpack::{ManagedTensor, release_output};
use crate::objects::{Argument, Handle, Kind};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use tenon_c::{Array, State};

/// Checks an array of the library: its name, size and memory.
fn check_array(array: &Array) {
    // SAFETY: a text, extents and memory that are valid until the object is freed (header).
    let (name, extents, bytes) = unsafe {
        let extents = std::slice::from_raw_parts(array.extents, array.rank as usize);
        let bytes = std::slice::from_raw_parts(array.data.cast::<u8>(), array.bytes);
        (read_text(array.name), extents, bytes)
    };
    assert!(name.is_some());
    let elements: i64 = extents.iter().product();
    assert_eq!(
        bytes.len(),
        (elements as usize * bits(array.dtype)).div_ceil(8)
    );
    std::hint::black_box(bytes.iter().fold(0u8, |all, &byte| all ^ byte));
}

impl Caller<'_> {
    pub fn model_run(&mut self) {
        let (model, size) = (self.argument(Kind::Model), self.size());
        let inputs = self.arrays(&model.origin.ports[0], size);
        let (task, place) = (self.task(&model.origin), self.place());
        let (start, count) = (inputs.start.cast_const(), inputs.count);
        let status = call!(
            self.api,
            model_run,
            model.handle,
            start,
            count,
            task.handle,
            place.pointer
        );
        let origin = model.origin.clone();
        self.made(Kind::Outputs, status, (&model, &[&task]), &place, origin);
    }

    pub fn model_execute(&mut self) {
        let (model, size) = (self.argument(Kind::Model), self.size());
        let [inputs, outputs] =
            [0, 1].map(|list| self.arrays(&model.origin.ports[list].clone(), size));
        // The memory of an input as that of an output, of the same size.
        if self.damage(6) == 0 && inputs.count.max(outputs.count) < 16 {
            // SAFETY: as many arrays as were made, unless null or not aligned.
            unsafe {
                let (from, to) = (inputs.start, outputs.start);
                if from.is_aligned()
                    && to.is_aligned()
                    && !from.is_null()
                    && !to.is_null()
                    && inputs.count.min(outputs.count) > 0
                    && (*from).bytes == (*to).bytes
                {
                    (*to).data = (*from).data;
                }
            }
        }
        let task = self.task(&model.origin);
        let status = call!(
            self.api,
            model_execute,
            model.handle,
            inputs.start.cast_const(),
            inputs.count,
            outputs.start,
            outputs.count,
            task.handle
        );
        self.succeeded(status, &model, &[&task]);
    }

    pub fn model_run_dlpack(&mut self) {
        let (model, size) = (self.argument(Kind::Model), self.size());
        let [inputs, outputs] = model.origin.ports.clone();
        let mut tensors: Vec<*mut ManagedTensor> = inputs
            .iter()
            .map(|port| self.managed_tensor(port, size))
            .collect();
        match self.damage(16) {
            0 => tensors.push(null_mut()),
            1 if !inputs.is_empty() => tensors.push(self.managed_tensor(&inputs[0], size)),
            _ => {}
        }
        let count = match self.damage(16) {
            0 => outputs.len() + 1,
            _ => outputs.len(),
        };
        let start = match self.damage(16) {
            0 => null_mut(),
            _ => self.memory.copy(&vec![null_mut::<c_void>(); count]),
        };
        let (input_count, task) = (tensors.len(), self.task(&model.origin));
        let tensors = self.memory.copy(&tensors).cast_const();
        let status = call!(
            self.api,
            model_run_dlpack,
            model.handle,
            tensors.cast(),
            input_count,
            task.handle,
            start.cast(),
            count
        );
        if self.succeeded(status, &model, &[&task]) {
            for at in 0..count {
                // SAFETY: a call that succeeded has written all outputs, of which this is the only holder.
                unsafe { release_output(start.add(at).read()) };
            }
        }
    }

    pub fn model_profile(&mut self) {
        let (model, size) = (self.argument(Kind::Model), self.size());
        let inputs = self.arrays(&model.origin.ports[0], size);
        let (runs, task, place) = (
            self.choices.below(3),
            self.task(&model.origin),
            self.place(),
        );
        let (start, count) = (inputs.start.cast_const(), inputs.count);
        let (handle, to) = (model.handle, place.pointer);
        let status = call!(
            self.api,
            model_profile,
            handle,
            start,
            count,
            runs,
            0,
            task.handle,
            to
        );
        let origin = model.origin.clone();
        self.made(Kind::Blob, status, (&model, &[&task]), &place, origin);
    }

    pub fn outputs_get(&mut self) {
        let (api, outputs, index) = (self.api, self.argument(Kind::Outputs), self.index());
        if let Some(count) = self.query(&outputs, |outputs, to| {
            call!(api, outputs_count, outputs, to)
        }) {
            let found: Option<Array> = self.query(&outputs, |outputs, to| {
                call!(api, outputs_get, outputs, index, to)
            });
            assert!(found.is_none() || index < count);
            found.iter().for_each(check_array);
        }
    }

    pub fn outputs_find(&mut self) {
        let (api, outputs) = (self.api, self.argument(Kind::Outputs));
        let name = self.name(&outputs.origin.ports[1].clone());
        self.query::<usize>(&outputs, |outputs, to| {
            call!(api, outputs_find, outputs, name, to)
        });
    }

    pub fn model_bind(&mut self) {
        let model = self.argument(Kind::Model);
        let extents = self.extents(&model.origin.ports[0].clone());
        let place = self.place();
        let (start, count) = (extents.start.cast_const(), extents.count);
        let status = call!(
            self.api,
            model_bind,
            model.handle,
            start,
            count,
            place.pointer
        );
        let origin = model.origin.clone();
        self.made(Kind::Bindings, status, (&model, &[]), &place, origin);
    }

    pub fn bindings_port(&mut self) {
        let (api, bindings, index) = (self.api, self.argument(Kind::Bindings), self.index());
        let is_output = self.choices.one_in(2);
        let value = self.choices.below(256) as u8;
        let found: Option<Array> = self.query(&bindings, |bindings, to| match is_output {
            false => call!(api, bindings_input, bindings, index, to),
            true => call!(api, bindings_output, bindings, index, to),
        });
        if let Some(array) = found {
            check_array(&array);
            // SAFETY: memory that the caller may write, since no execution uses it now (header).
            unsafe { array.data.cast::<u8>().write_bytes(value, array.bytes) };
        }
    }

    pub fn bindings_run(&mut self) {
        let bindings = self.argument(Kind::Bindings);
        let task = self.task(&bindings.origin);
        let status = call!(self.api, bindings_run, bindings.handle, task.handle);
        self.succeeded(status, &bindings, &[&task]);
    }

    pub fn model_session(&mut self) {
        let model = self.argument(Kind::Model);
        let (pairs, place) = (self.states(&model.origin.ports), self.place());
        let (start, count) = (pairs.start.cast_const(), pairs.count);
        let status = call!(
            self.api,
            model_session,
            model.handle,
            start,
            count,
            place.pointer
        );
        let origin = model.origin.clone();
        self.made(Kind::Session, status, (&model, &[]), &place, origin);
    }

    pub fn session_run(&mut self) {
        let session = self.argument(Kind::Session);
        // The inputs before the last ones, since most states are last in the models.
        let ports = session.origin.ports[0].clone();
        let given = match self.choices.below(4) {
            0 => ports.len(),
            other => other.min(ports.len()),
        };
        let size = self.size();
        let inputs = self.arrays(&ports[..given], size);
        let (task, place) = (self.task(&session.origin), self.place());
        let (start, count) = (inputs.start.cast_const(), inputs.count);
        let (handle, to) = (session.handle, place.pointer);
        let status = call!(self.api, session_run, handle, start, count, task.handle, to);
        let origin = session.origin.clone();
        self.made(Kind::Outputs, status, (&session, &[&task]), &place, origin);
    }

    pub fn session_states(&mut self) {
        let (api, session, index) = (self.api, self.argument(Kind::Session), self.index());
        if let Some(count) = self.query(&session, |session, to| {
            call!(api, session_state_count, session, to)
        }) {
            let state: Option<State> = self.query(&session, |session, to| {
                call!(api, session_state, session, index, to)
            });
            if let Some(State { output, input }) = state {
                // SAFETY: texts that are valid until the session is freed (header).
                let texts = unsafe { [read_text(output), read_text(input)] };
                assert!(index < count && texts.iter().all(Option::is_some));
            }
        }
    }

    /// The name of a state: of an input or output.
    fn state_name(&mut self, session: &Argument) -> *const std::ffi::c_char {
        let list = self.choices.below(2);
        self.name(&session.origin.ports[list].clone())
    }

    pub fn session_value(&mut self) {
        let (api, session) = (self.api, self.argument(Kind::Session));
        let name = self.state_name(&session);
        let found: Option<Handle> = self.query(&session, |session, to| {
            call!(api, session_value, session, name, to)
        });
        if let Some(value) = found {
            self.objects.add(Kind::Outputs, value, session.origin);
        }
    }

    pub fn session_set_value(&mut self) {
        let session = self.argument(Kind::Session);
        let name = self.state_name(&session);
        let ports = session.origin.ports[0].clone();
        let at = self.choices.below(ports.len() + 1);
        let size = self.size();
        let array = self.array(&ports, at, size);
        let array = self.list(&[array]);
        let value = array.start.cast_const();
        let status = call!(self.api, session_set_value, session.handle, name, value);
        self.succeeded(status, &session, &[]);
    }

    pub fn session_steps(&mut self) {
        let (api, session) = (self.api, self.argument(Kind::Session));
        let steps: Option<i64> = self.query(&session, |session, to| {
            call!(api, session_steps, session, to)
        });
        assert!(steps.is_none_or(|steps| steps >= -1));
        let status = match self.choices.below(4) {
            0 => call!(api, session_reset, session.handle),
            1 => return,
            _ => {
                let steps = self.choices.pick(&[0, 1, 2, u64::MAX, 1 << 32]);
                call!(api, session_truncate, session.handle, steps)
            }
        };
        self.succeeded(status, &session, &[]);
    }

    pub fn session_fork(&mut self) {
        let api = self.api;
        self.query_object(Kind::Session, Kind::Session, |session, to| {
            call!(api, session_fork, session, to)
        });
    }

    pub fn model_submit(&mut self) {
        let (model, size) = (self.argument(Kind::Model), self.size());
        let inputs = self.arrays(&model.origin.ports[0].clone(), size);
        let (options, task, has_callback) = self.submit_options(&model.origin);
        let place = self.place();
        let (start, count) = (inputs.start.cast_const(), inputs.count);
        let (handle, to) = (model.handle, place.pointer);
        // Before the call, which may end the execution.
        EXPECTED_ENDS.fetch_add(u64::from(has_callback), Ordering::SeqCst);
        let status = call!(self.api, model_submit, handle, start, count, options, to);
        let origin = model.origin.clone();
        if !self.made(Kind::Run, status, (&model, &[&task]), &place, origin) {
            EXPECTED_ENDS.fetch_sub(u64::from(has_callback), Ordering::SeqCst);
        }
    }

    pub fn run_wait(&mut self) {
        let (api, run) = (self.api, self.argument(Kind::Run));
        if self.choices.one_in(3) {
            let found: Option<c_int> =
                self.query(&run, |run, to| call!(api, run_descriptor, run, to));
            assert!(found.is_none_or(|descriptor| descriptor > 2));
        }
        let times = [
            0.0,
            1e-4,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
        ];
        let seconds = self.choices.pick(&times);
        let ended: Option<i32> = self.query(&run, |run, to| call!(api, run_wait, run, seconds, to));
        let has_limit = (0.0..1.0).contains(&seconds);
        assert!(ended.is_none_or(|ended| ended == 1 || ended == 0 && has_limit));
    }

    pub fn run_outputs(&mut self) {
        let api = self.api;
        self.query_object(Kind::Outputs, Kind::Run, |run, to| {
            call!(api, run_outputs, run, to)
        });
    }

    pub fn run_cancel(&mut self) {
        let run = self.argument(Kind::Run);
        let status = call!(self.api, run_cancel, run.handle);
        assert_eq!(self.succeeded(status, &run, &[]), run.is_live);
    }
}
