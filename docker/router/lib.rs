// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Empty: cargo wants a target in a package that is here for its dependencies alone.
