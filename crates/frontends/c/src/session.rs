//! `tenon_session`: a model whose states are kept between executions.

use crate::arrays::{by_name, inputs, tensor};
use crate::blob::write_handle;
use crate::compile::state_pairs;
use crate::model::model_of;
use crate::outputs::{beyond, write_outputs};
use crate::status;
use crate::structs::{Array, State};
use crate::task::control_of;
use crate::texts::c_text;
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use tenon::{Error, ErrorKind, Result, RunOptions, Session};
use tenon_c_callers::arguments::{check, read_input, text, write_output};
use tenon_c_callers::handles::{Handle, Handles};

static SESSIONS: Handles<Arc<OpenSession>> = Handles::new(0x6e, "session");

struct OpenSession {
    session: Mutex<Session>,
    /// Outputs and inputs of the states.
    states: Vec<[CString; 2]>,
}

impl OpenSession {
    fn new(session: Session) -> Arc<Self> {
        let states = session.states().into_iter();
        let states = states.map(|pair| [c_text(&pair.output), c_text(&pair.input)]);
        Arc::new(Self {
            states: states.collect(),
            session: Mutex::new(session),
        })
    }

    /// The session, which no other thread uses at the moment.
    fn lock(&self) -> Result<MutexGuard<'_, Session>> {
        match self.session.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::Poisoned(session)) => Ok(session.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let error = Error::new(ErrorKind::Usage, "another thread uses this session");
                Err(error.help("each thread needs its own session: session_fork"))
            }
        }
    }
}

pub unsafe extern "C" fn model_session(
    model: Handle,
    pairs: *const State,
    count: usize,
    session: *mut Handle,
) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        // SAFETY: null or `count` pairs of texts (header).
        let pairs = unsafe { state_pairs(pairs, count)? };
        let made = match pairs.is_empty() {
            true => loaded.model.session()?,
            false => loaded.model.session_with(&pairs)?,
        };
        // SAFETY: null or valid for writing (header).
        unsafe { write_handle(session, "session", &SESSIONS, OpenSession::new(made)) }
    })
}

pub unsafe extern "C" fn session_run(
    session: Handle,
    arrays: *const Array,
    count: usize,
    control: Handle,
    outputs: *mut Handle,
) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        let options = RunOptions::new().control(control_of(control)?);
        check(outputs, "outputs")?;
        let mut session = open.lock()?;
        // SAFETY: null or `count` arrays (header).
        let inputs = unsafe { inputs(session.inputs(), arrays, count)? };
        let found = session.run_with(&by_name(&inputs), options)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_outputs(outputs, "outputs", found.named()) }
    })
}

pub unsafe extern "C" fn session_state_count(session: Handle, count: *mut usize) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(count, "count", open.states.len()) }
    })
}

pub unsafe extern "C" fn session_state(session: Handle, index: usize, state: *mut State) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        let states = &open.states;
        let [output, input] = states
            .get(index)
            .ok_or_else(|| beyond("states", states.len(), index))?;
        let found = State {
            output: output.as_ptr(),
            input: input.as_ptr(),
        };
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(state, "state", found) }
    })
}

pub unsafe extern "C" fn session_value(
    session: Handle,
    state: *const c_char,
    value: *mut Handle,
) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        // SAFETY: null or a text (header).
        let name = unsafe { text(state, "state")? };
        check(value, "value")?;
        let found = open.lock()?.value(name)?;
        let found = found.iter().map(|tensor| (name, tensor));
        // SAFETY: null or valid for writing (header).
        unsafe { write_outputs(value, "value", found) }
    })
}

pub unsafe extern "C" fn session_set_value(
    session: Handle,
    state: *const c_char,
    value: *const Array,
) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        // SAFETY: null or a text, null or an array (header).
        let (name, value) = unsafe {
            let value = read_input(value, "value")?;
            (text(state, "state")?, tensor(value, "value")?)
        };
        open.lock()?.set_value(name, value)
    })
}

pub unsafe extern "C" fn session_steps(session: Handle, steps: *mut i64) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        let found = open.lock()?.steps().map_or(-1, |steps| steps as i64);
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(steps, "steps", found) }
    })
}

pub extern "C" fn session_truncate(session: Handle, steps: u64) -> Handle {
    status::of(|| {
        let open = SESSIONS.find(session)?;
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        open.lock()?.truncate(steps)
    })
}

pub extern "C" fn session_reset(session: Handle) -> Handle {
    status::of(|| {
        SESSIONS.find(session)?.lock()?.reset();
        Ok(())
    })
}

pub unsafe extern "C" fn session_fork(session: Handle, fork: *mut Handle) -> Handle {
    status::of(|| {
        let forked = SESSIONS.find(session)?.lock()?.fork();
        // SAFETY: null or valid for writing (header).
        unsafe { write_handle(fork, "fork", &SESSIONS, OpenSession::new(forked)) }
    })
}

pub extern "C" fn session_free(session: Handle) -> Handle {
    status::freed(&SESSIONS, session)
}
