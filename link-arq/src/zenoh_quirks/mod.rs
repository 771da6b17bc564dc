// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What the link does only because of how zenoh 1.10.2 behaves.
//!
//! | zenoh | the link | cost per batch | what upstream could offer instead |
//! |---|---|---|---|
//! | sends CLOSE as data of priority Background, and ends the session when the peer reads it, though other priorities still have to deliver | recognises CLOSE ([`batch::is_close`]), sends it after everything else has arrived, and hands it to the reader last | two bytes compared; a batch that ends in the two bytes of a CLOSE, 1 of 4,096 at random, is decoded | `LinkUnicastTrait::write` that names the kind of message; or CLOSE is sent after the writers are joined |
//! | closes a link when the first of its eight writers is done | waits for the others ([`writes`]) | three atomic additions | `try_join_all` instead of `select_all` in `tx_task` (zenoh-transport `unicast/universal/link.rs`): an error still ends at once |
//! | drops a write that waits, and then writes what is queued behind it | keeps the write and sends it first ([`given_up`]) | one atomic read, and the copy that is needed anyway | cancel only the wait: `_ = cancellation_token.cancelled() => break` beside `pipeline.pull()` in `write_loop` there, which now runs all of itself `run_until_cancelled` |
//! | counts its lease from the last batch of the peer, and sends a keep-alive each quarter of it: an outage of three quarters ends an idle session | repeats the peer's keep-alive while the connection hears the peer ([`keep_alive`]) | one clock reading of a received batch | `fn last_heard(&self) -> Option<Instant> { None }` in `LinkUnicastTrait`, asked when the lease runs out |
//! | puts reliable messages and best effort into one batch, and opens a second link only where each has its own | parts the batch by kind ([`batch::by_kind`]) | the first byte; after best effort was seen in a priority, the headers of its messages | `write(&self, buffer, priority, reliability)`, and a batch for each |
//! | drops a message of several batches when one of them waits, and has sent the others for nothing | takes the rest of a message that has begun ([`batch::more_or_nothing`]) | the first byte; of a fragment, its header | an argument `more` with it |
//! | means to tell of a message in parts of which it drops the rest, and writes a batch of no bytes | writes nothing, and lets the next message begin anew | one comparison | the marker that it means to write |
//!
//! Tests that fail without them: `open_close`, `nothing_is_missing_where_a_write_was_waiting_at_the_close`,
//! `what_arrives_before_a_close_is_whole_from_the_beginning`, `keep_alives_outlast_the_lease`,
//! `best_effort_beside_reliable`.

pub(crate) mod batch;
pub(crate) mod given_up;
pub(crate) mod keep_alive;
pub(crate) mod writes;
