// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! `arq-proto` for C: what `include/arq.h` declares and documents.
//!
//! This is the one crate with pointers from outside. Every function checks them for null before anything else; that they
//! point to what the header asks for is the caller's part. No panic leaves a function: one would end the process
//! (`extern "C"`).

#![allow(clippy::missing_safety_doc, reason = "the header says what a caller owes")]
#![allow(unreachable_pub, reason = "what is exported is the C interface")]

mod convert;
mod engine;

use std::{ffi::c_char, slice};

use arq_proto::{LaneId, ValidConfig, VERSION};
use convert::{arq_address, arq_config, arq_event, arq_stats};
use engine::{Engine, Failure};

/// `ARQ_OK`: it is done.
const OK: i32 = 0;
/// `ARQ_NOTHING`: there is none now.
const NOTHING: i32 = 1;
/// Bytes of a seed.
const SEED_BYTES: usize = 32;

/// `arq_endpoint` in the header.
pub struct ArqEndpoint(Engine);

/// The status that a call returns.
fn status(result: Result<i32, Failure>) -> i32 {
    result.unwrap_or_else(|failure| failure as i32)
}

/// What a pointer points to.
///
/// # Safety
/// It is null, or points to a `T` that nobody writes while the result lives.
unsafe fn borrow<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise is that of `as_ref`.
    unsafe { pointer.as_ref() }.ok_or(Failure::Null)
}

/// The same, to be changed.
///
/// # Safety
/// It is null, or points to a `T` that nobody else uses while the result lives.
unsafe fn borrow_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise is that of `as_mut`.
    unsafe { pointer.as_mut() }.ok_or(Failure::Null)
}

/// Bytes that the application lends. None are no error, whatever the pointer.
///
/// # Safety
/// It is null, or `length` bytes can be read there that nobody writes while the result lives.
unsafe fn lent<'a>(pointer: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::Null);
    }
    if length > isize::MAX as usize {
        return Err(Failure::Invalid);
    }
    // SAFETY: not null, of a length that a slice may have, and readable as the caller promises.
    Ok(unsafe { slice::from_raw_parts(pointer, length) })
}

/// Writes what `bytes` holds into a buffer of the application.
///
/// # Safety
/// At least so many bytes can be written there.
unsafe fn fill(buffer: *mut u8, bytes: &[u8]) -> Result<(), Failure> {
    if buffer.is_null() && !bytes.is_empty() {
        return Err(Failure::Null);
    }
    if !bytes.is_empty() {
        // SAFETY: not null, long enough as the caller promises, and no buffer of ours, which `bytes` is.
        unsafe { buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

/// The configuration that a pointer names: one of zeros, which are the defaults, if it is null.
///
/// # Safety
/// As [`borrow`].
unsafe fn config(pointer: *const arq_config) -> Result<ValidConfig, Failure> {
    // SAFETY: the caller's promise is passed on.
    match unsafe { pointer.as_ref() } {
        Some(config) => config.build(),
        None => arq_config::default().build(),
    }
}

fn lane(number: u8) -> Result<LaneId, Failure> {
    LaneId::all().nth(number.into()).ok_or(Failure::Invalid)
}

/// See the header.
#[no_mangle]
pub extern "C" fn arq_protocol_version() -> u32 {
    VERSION
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_endpoint_new(
    accept: *const arq_config,
    seed: *const u8,
    now_us: u64,
    out: *mut *mut ArqEndpoint,
) -> i32 {
    // SAFETY: the header asks for a configuration or null, 32 bytes, and a place for a pointer.
    status(unsafe {
        (|| {
            let out = borrow_mut(out)?;
            *out = std::ptr::null_mut();
            let accept = if accept.is_null() { None } else { Some(config(accept)?) };
            let seed = lent(seed, SEED_BYTES)?.try_into().map_err(|_| Failure::Invalid)?;
            let engine = Engine::new(accept, seed, now_us)?;
            *out = Box::into_raw(Box::new(ArqEndpoint(engine)));
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_endpoint_free(endpoint: *mut ArqEndpoint) {
    if !endpoint.is_null() {
        // SAFETY: the header asks for what arq_endpoint_new gave, once: it is a box that is not borrowed.
        drop(unsafe { Box::from_raw(endpoint) });
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_connect(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    to: *const arq_address,
    with: *const arq_config,
    connection: *mut u64,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, an address, a configuration or null, and a place for an id.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            let (to, connection) = (borrow(to)?.socket_addr()?, borrow_mut(connection)?);
            *connection = engine.connect(engine.at(now_us)?, to, config(with)?);
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_handle_datagram(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    from: *const arq_address,
    datagram: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, an address, and `length` readable bytes.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            let (from, datagram) = (borrow(from)?.socket_addr()?, lent(datagram, length)?);
            engine.handle_datagram(engine.at(now_us)?, from, datagram);
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_poll_transmit(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    to: *mut arq_address,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, `capacity` writable bytes, and places for what is told.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            let (length, to) = (borrow_mut(length)?, borrow_mut(to)?);
            if buffer.is_null() {
                return Err(Failure::Null);
            }
            let now = engine.at(now_us)?;
            let Some((destination, datagram)) = engine.poll_transmit(now, capacity)? else {
                return Ok(NOTHING);
            };
            if datagram.len() > capacity {
                return Err(Failure::TooSmall);
            }
            fill(buffer, datagram)?;
            (*length, *to) = (datagram.len(), destination.into());
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_poll_timeout(endpoint: *const ArqEndpoint, at_us: *mut u64) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, and a place for a time.
    status(unsafe {
        (|| {
            let due = borrow(endpoint)?.0.poll_timeout();
            *borrow_mut(at_us)? = due.unwrap_or(u64::MAX);
            Ok(if due.is_some() { OK } else { NOTHING })
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_handle_timeout(endpoint: *mut ArqEndpoint, now_us: u64) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            engine.handle_timeout(engine.at(now_us)?);
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_send(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    connection: u64,
    lane_number: u8,
    message: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, and `length` readable bytes.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            let (lane, message) = (lane(lane_number)?, lent(message, length)?);
            engine.send(connection, engine.at(now_us)?, lane, message)?;
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_recv(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    connection: u64,
    lane_number: u8,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, `capacity` writable bytes, and a place for a length.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            let (lane, length) = (lane(lane_number)?, borrow_mut(length)?);
            // Without a buffer nothing fits: the message is kept.
            let capacity = if buffer.is_null() { 0 } else { capacity };
            let now = engine.at(now_us)?;
            match engine.recv(connection, now, lane, capacity)? {
                None => Ok(NOTHING),
                Some(Ok(message)) => {
                    fill(buffer, &message)?;
                    *length = message.len();
                    Ok(OK)
                }
                Some(Err(needed)) => {
                    *length = needed;
                    Err(Failure::TooSmall)
                }
            }
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_poll_event(endpoint: *mut ArqEndpoint, out: *mut arq_event) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, and a place for an event.
    status(unsafe {
        (|| {
            let (engine, out) = (&mut borrow_mut(endpoint)?.0, borrow_mut(out)?);
            while let Some(told) = engine.poll_event() {
                if let Some(event) = arq_event::new(&told) {
                    *out = event;
                    return Ok(OK);
                }
            }
            Ok(NOTHING)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_finish(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    connection: u64,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            engine.finish(connection, engine.at(now_us)?)?;
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_close(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    connection: u64,
    reason: *const c_char,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, and a text that ends with a zero, or null.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            let reason = match reason.is_null() {
                true => "",
                false => std::ffi::CStr::from_ptr(reason).to_str().map_err(|_| Failure::Invalid)?,
            };
            engine.close(connection, engine.at(now_us)?, reason)?;
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_release(
    endpoint: *mut ArqEndpoint,
    now_us: u64,
    connection: u64,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call.
    status(unsafe {
        (|| {
            let engine = &mut borrow_mut(endpoint)?.0;
            engine.release(connection, engine.at(now_us)?)?;
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_close_reason(
    endpoint: *const ArqEndpoint,
    connection: u64,
    buffer: *mut c_char,
    capacity: usize,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, and `capacity` writable bytes.
    status(unsafe {
        (|| {
            let core = borrow(endpoint)?.0.connection(connection)?;
            let Some(reason) = core.close_reason() else { return Ok(NOTHING) };
            let text = convert::c_text(&reason.to_string(), capacity).ok_or(Failure::TooSmall)?;
            fill(buffer.cast(), &text)?;
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn arq_get_stats(
    endpoint: *const ArqEndpoint,
    connection: u64,
    out: *mut arq_stats,
) -> i32 {
    // SAFETY: the header asks for an endpoint in no other call, and a place for the figures.
    status(unsafe {
        (|| {
            *borrow_mut(out)? = arq_stats::from(&borrow(endpoint)?.0.stats(connection)?);
            Ok(OK)
        })()
    })
}

/// See the header.
#[no_mangle]
pub extern "C" fn arq_status_text(status: i32) -> *const c_char {
    convert::status_text(status).as_ptr()
}
