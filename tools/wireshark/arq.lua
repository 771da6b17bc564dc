-- SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

-- Wireshark and tshark: packets of ARQ, as docs/protocol.md lays them out. docs/wireshark.md says how to use it.
--
-- A datagram on any port is named ARQ if its first byte is that of a packet and its CRC-32C is right. From then on its two
-- ports are known, and the connection ids that it named: SEALED packets have no checksum, and are believed by these
-- alone. Of packets that are encrypted only what stands in the clear is shown.

local arq = Proto("arq", "ARQ (arq/ link of zenoh)")

-- Names ------------------------------------------------------------------------------------------------------------

local HELLO, CHALLENGE, REFUSE, RESET, HANDSHAKE = 0xa0, 0xa1, 0xa2, 0xa3, 0xa4
local KINDS = {
  [HELLO] = "HELLO", [CHALLENGE] = "CHALLENGE", [REFUSE] = "REFUSE", [RESET] = "RESET", [HANDSHAKE] = "HANDSHAKE",
  [0xa8] = "DATA", [0xa9] = "DATA", [0xaa] = "DATA", [0xab] = "DATA", [0xb0] = "SEALED", [0xb1] = "SEALED",
}
-- The shortest is REFUSE.
local LEAST_LENGTH = 14
local SEALED = { [0xb0] = true, [0xb1] = true }
-- In this version parameters are in the clear; in others they are not, and what stands there is left as it is.
local CLEAR_VERSION = 0x61727101
local REASONS = { [1] = "no common version", [2] = "busy", [3] = "handshake failed" }
local PRIORITIES = {
  [0] = "control", "real-time", "interactive-high", "interactive-low", "data-high", "data", "data-low", "background",
}
local FRAMES = {
  [0x00] = "PADDING", [0x01] = "PING", [0x02] = "ACK", [0x03] = "ACK", [0x04] = "CLOSE", [0x05] = "MAX_DATA",
  [0x06] = "PATH_CHALLENGE", [0x07] = "PATH_RESPONSE", [0x08] = "ACK", [0x09] = "ACK", [0x0a] = "PATH_ACK",
  [0x0b] = "PATH_ACK", [0x0c] = "PATH_STATE", [0x0e] = "PATH_ACK", [0x0f] = "PATH_ACK",
}
for high, name in pairs({ "MESSAGE", "CHUNK", "REPAIR", "MAX_LANE_DATA", "FORGET", "TIMESTAMP" }) do
  for lane = 0, 15 do FRAMES[high * 16 + lane] = name end
end
local USES = { [0] = "available", [1] = "backup", [2] = "urgent", [3] = "paused", [4] = "control" }
local PARAMETERS = {
  "MAX_DATAGRAM", "LANE_WINDOW", "CONNECTION_WINDOW", "HOLD", "APP", "REPAIR", "RESEGMENT", "PATHS",
}

-- Fields -----------------------------------------------------------------------------------------------------------

local f = {}

local function field(name, kind, title, ...)
  f[name] = ProtoField[kind]("arq." .. name, title, ...)
end

field("kind", "uint8", "Kind", base.HEX, KINDS)
field("flags.ack_now", "bool", "ACK_NOW", 8, nil, 0x01)
field("flags.cookie", "bool", "Cookie block", 8, nil, 0x02)
field("dcid", "uint64", "Destination id", base.HEX)
field("scid", "uint64", "Source id", base.HEX)
field("instance", "uint64", "Instance", base.HEX)
field("attempt", "uint8", "Attempt")
field("path", "uint8", "Path")
field("path.sequence", "uint64", "Sequence")
field("path.use", "uint8", "Use", base.DEC, USES)
field("version.count", "uint8", "Versions offered")
field("version", "uint32", "Version", base.HEX)
field("padding", "bytes", "Padding")
field("refuse.reason", "uint8", "Reason", base.DEC, REASONS)
field("refuse.alert", "uint8", "TLS alert")
field("reset.tag", "uint64", "End of the tag that is answered", base.HEX)
field("flight.length", "uint64", "Length in the clear")
field("flight", "bytes", "Flight")
field("rest", "bytes", "Further bytes")
field("cookie.length", "uint64", "Cookie length")
field("cookie", "bytes", "Cookie")
field("parameters.length", "uint64", "Parameters length")
field("parameter", "none", "Parameter")
field("parameter.id", "uint64", "Identifier")
field("parameter.length", "uint64", "Length")
field("parameter.value", "bytes", "Value")
field("max_datagram", "uint64", "MAX_DATAGRAM (bytes)")
field("lane_window", "uint64", "LANE_WINDOW (bytes)")
field("connection_window", "uint64", "CONNECTION_WINDOW (bytes)")
field("hold", "uint64", "HOLD (us)")
field("number", "uint32", "Packet number (low 32 bits)")
field("number.masked", "uint32", "Packet number (masked)", base.HEX)
field("span", "uint64", "Span")
field("sealed", "bytes", "Sealed")
field("frame", "uint8", "Frame", base.HEX, FRAMES)
for _, name in pairs(FRAMES) do
  if not f[name:lower()] then field(name:lower(), "none", name) end
end
field("priority", "uint8", "Priority", base.DEC, PRIORITIES, 0x0e)
field("best_effort", "bool", "Best effort", 8, nil, 0x01)
field("lane", "uint8", "Lane", base.DEC, nil, 0x0f)
field("sequence", "uint64", "Sequence")
field("length", "uint64", "Message length (bytes)")
field("size", "uint64", "Chunk size (bytes)")
field("index", "uint64", "Index")
field("data", "bytes", "Data")
field("symbol", "bytes", "Repair symbol")
field("ack.largest", "uint64", "Largest acknowledged")
field("ack.delay", "uint64", "Delay (us)")
field("ack.count", "uint64", "Further ranges")
field("ack.gap", "uint64", "Gap")
field("ack.length", "uint64", "Range length")
field("ack.bytes", "uint64", "Bytes of bitmap")
field("ack.bitmap", "bytes", "Bitmap")
field("ack.ect0", "uint64", "Packets with ECT(0)")
field("ack.ect1", "uint64", "Packets with ECT(1)")
field("ack.ce", "uint64", "Packets with CE")
field("close.length", "uint64", "Reason length")
field("close.reason", "string", "Reason", base.UNICODE)
field("credit", "uint64", "Credit (bytes since the start)")
field("token", "uint64", "Token", base.HEX)
field("below", "uint64", "Below")
field("time", "uint24", "Time (ms, low 24 bits)")
field("tag", "uint32", "Tag (CRC-32C)", base.HEX)
field("tag.good", "bool", "Tag is right")
field("packets", "uint16", "Packets in this datagram")

local all = {}
for _, made in pairs(f) do all[#all + 1] = made end
arq.fields = all

local bad_tag = ProtoExpert.new("arq.tag.bad", "The tag does not match", expert.group.CHECKSUM, expert.severity.ERROR)
local malformed = ProtoExpert.new("arq.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
arq.experts = { bad_tag, malformed }

-- Arithmetic -------------------------------------------------------------------------------------------------------

-- Lua has had its bit operations in three places.
local bits = bit32 or bit
if not bits then
  bits = load([[return {
    band = function(a, b) return a & b end, bxor = function(a, b) return a ~ b end,
    rshift = function(a, n) return a >> n end,
  }]])()
end
local band, bxor, rshift = bits.band, bits.bxor, bits.rshift

local CRC = {}
for index = 0, 255 do
  local crc = index
  for _ = 1, 8 do
    crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0x82f63b78) or rshift(crc, 1)
  end
  CRC[index] = crc
end

local function crc32c(bytes)
  local crc = 0xffffffff
  for at = 1, #bytes do
    crc = bxor(CRC[band(bxor(crc, bytes:byte(at)), 0xff)], rshift(crc, 8))
  end
  -- `bit` has signed results.
  return bxor(crc, 0xffffffff) % 0x100000000
end

local function ends_right(tvb, length)
  return length > 4 and crc32c(tvb:raw(0, length - 4)) == tvb(length - 4, 4):uint()
end

-- What of a HANDSHAKE packet stands in the clear ends with a checksum of its own: its length, or 0.
local function clear_length(tvb)
  local at = 22
  if tvb:len() < at + 5 then return 0 end
  local bytes = 2 ^ rshift(tvb(at, 1):uint(), 6)
  if bytes > 4 or tvb:len() < at + bytes + 4 then return 0 end
  local length = at + bytes + band(tvb(at, bytes):uint(), 0x40 * 0x100 ^ (bytes - 1) - 1) + 4
  return length <= tvb:len() and length or 0
end

local function tag_is_right(tvb)
  return ends_right(tvb, tvb(0, 1):uint() == HANDSHAKE and clear_length(tvb) or tvb:len())
end

-- Reading ----------------------------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

-- What ends the reading of a packet; any other error is one of this script.
local MALFORMED = {}

local function fail(what)
  error(setmetatable({ what = what }, MALFORMED), 0)
end

-- Reads from `at` up to `stop`, into `tree`.
local function reader(tvb, at, stop)
  return setmetatable({ tvb = tvb, at = at, stop = stop }, Reader)
end

function Reader:take(count, name)
  if count > self.stop - self.at then fail(name .. ": truncated") end
  local range = self.tvb(self.at, count)
  self.at = self.at + count
  return range
end

function Reader:left()
  return self.stop - self.at
end

function Reader:field(tree, name, count)
  local range = self:take(count, name)
  tree:add(f[name], range)
  return range
end

-- Bytes, of which there may be none.
function Reader:bytes(tree, name, count)
  if count > 0 then return self:field(tree, name, count) end
end

-- A varint (ARQ-ENC-2), as a number: exact up to 2^53.
function Reader:varint(tree, name, least, largest)
  if self:left() == 0 then fail(name .. ": truncated") end
  local bytes = 2 ^ rshift(self.tvb(self.at, 1):uint(), 6)
  local range = self:take(bytes, name)
  local value = range:uint64():band(UInt64.max():rshift(66 - 8 * bytes))
  tree:add(f[name], range, value)
  local number = value:tonumber()
  if number < (least or 0) or number > (largest or math.huge) then fail(name .. ": invalid value") end
  return number
end

-- Parameters (section 5) -------------------------------------------------------------------------------------------

local function parameters(r, tree)
  while r:left() > 0 do
    local node = tree:add(f["parameter"], r.tvb(r.at, r:left()))
    local begin = r.at
    local id = r:varint(node, "parameter.id")
    local length = r:varint(node, "parameter.length")
    local name = PARAMETERS[id]
    node:set_text(name or ("parameter " .. id))
    if length > r:left() then fail("parameter.value: truncated") end
    if id >= 1 and id <= 4 then
      local inner = reader(r.tvb, r.at, r.at + length)
      node:append_text(" " .. inner:varint(node, name:lower()))
      r.at = r.at + length
    else
      r:bytes(node, "parameter.value", length)
    end
    node:set_len(r.at - begin)
  end
end

local function cookie(r, tree)
  r:bytes(tree, "cookie", r:varint(tree, "cookie.length", 0, 64))
end

-- Frames (section 4) -----------------------------------------------------------------------------------------------

local function ack_ranges(r, node)
  local text = {}
  local ending = r:varint(node, "ack.largest")
  r:varint(node, "ack.delay")
  for index = 0, r:varint(node, "ack.count", 0, 63) do
    if index > 0 then ending = ending - r:varint(node, "ack.gap") - 2 end
    local start = ending - r:varint(node, "ack.length")
    if start < 0 then fail("ack.length: invalid value") end
    text[#text + 1] = start == ending and ("%d"):format(start) or ("%d..=%d"):format(start, ending)
    ending = start
  end
  return table.concat(text, " ")
end

local function ack_bitmap(r, node)
  local largest = r:varint(node, "ack.largest")
  r:varint(node, "ack.delay")
  local text = { ("%d"):format(largest) }
  local bitmap = r:bytes(node, "ack.bitmap", r:varint(node, "ack.bytes", 0, 224))
  for at = 0, bitmap and bitmap:len() - 1 or -1 do
    local byte = bitmap(at, 1):uint()
    for k = 0, 7 do
      if band(byte, rshift(0x80, k)) ~= 0 then
        local number = largest - 1 - 8 * at - k
        if number < 0 then fail("ack.bitmap: invalid value") end
        text[#text + 1] = ("%d"):format(number)
      end
    end
  end
  return table.concat(text, " ")
end

-- An acknowledgement with the counts of ECN.
local function with_counts(acknowledgement)
  return function(r, node)
    local text = acknowledgement(r, node)
    local ect0, ect1, ce = r:varint(node, "ack.ect0"), r:varint(node, "ack.ect1"), r:varint(node, "ack.ce")
    return ("%s, ECT(0) %d, ECT(1) %d, CE %d"):format(text, ect0, ect1, ce)
  end
end

local function path(r, node)
  local number = r:field(node, "path", 1):uint()
  if number > 3 then fail("path: invalid value") end
  return number
end

-- An acknowledgement of packets that took another path.
local function of_path(acknowledgement)
  return function(r, node) return ("path %d: %s"):format(path(r, node), acknowledgement(r, node)) end
end

local function path_state(r, node)
  local number = path(r, node)
  r:varint(node, "path.sequence")
  local use = r:field(node, "path.use", 1):uint()
  return ("path %d: %s"):format(number, USES[use] or USES[0])
end

local function message(r, node)
  local sequence = r:varint(node, "sequence")
  r:field(node, "data", r:varint(node, "length", 1, 65535))
  return ("%d"):format(sequence)
end

-- What CHUNK and REPAIR have in common.
local function shape(r, node)
  local sequence = r:varint(node, "sequence")
  local length = r:varint(node, "length", 1, 65535)
  local size = r:varint(node, "size", 512, length - 1)
  return sequence, length, size, math.ceil(length / size)
end

local function chunk(r, node)
  local sequence, length, size, count = shape(r, node)
  local index = r:varint(node, "index", 0, count - 1)
  r:field(node, "data", math.min(size, length - index * size))
  return ("%d [%d of %d]"):format(sequence, index, count)
end

local function repair(r, node)
  local sequence, _, size, count = shape(r, node)
  local index = r:varint(node, "index", 0, 127)
  r:field(node, "symbol", size)
  return ("%d [%d for %d]"):format(sequence, index, count)
end

local function number(name)
  return function(r, node) return ("%d"):format(r:varint(node, name)) end
end

local function token(r, node) return tostring(r:field(node, "token", 8):bytes()):lower() end

local function close(r, node)
  local reason = r:bytes(node, "close.reason", r:varint(node, "close.length", 0, 200))
  return reason and reason:string(ENC_UTF_8) or ""
end

local BODIES = {
  [0x02] = ack_ranges, [0x03] = ack_bitmap, [0x04] = close, [0x05] = number("credit"), [0x06] = token, [0x07] = token,
  [0x08] = with_counts(ack_ranges), [0x09] = with_counts(ack_bitmap),
  [0x0a] = of_path(ack_ranges), [0x0b] = of_path(ack_bitmap), [0x0c] = path_state,
  [0x0e] = of_path(with_counts(ack_ranges)), [0x0f] = of_path(with_counts(ack_bitmap)),
}
local LANE_BODIES = {
  message, chunk, repair, number("credit"), number("below"),
  function(r, node) return ("%d ms"):format(r:field(node, "time", 3):uint()) end,
}

local function padding(r, tree)
  local begin = r.at
  while r:left() > 0 and r.tvb(r.at, 1):uint() == 0 do r.at = r.at + 1 end
  tree:add(f["padding"], r.tvb(begin, r.at - begin))
end

-- One frame; what it is in short.
local function frame(r, tree)
  local begin, kind = r.at, r.tvb(r.at, 1):uint()
  local name, high = FRAMES[kind], rshift(kind, 4)
  if not name then fail(("frame.kind: 0x%02x is unknown"):format(kind)) end
  local node = tree:add(f[name:lower()], r.tvb(begin, r:left()))
  local start = r:field(node, "frame", 1)
  local text = name
  if high > 0 then
    node:add(f["lane"], start)
    node:add(f["priority"], start)
    node:add(f["best_effort"], start)
    text = ("%s %s%s"):format(name, PRIORITIES[rshift(band(kind, 0x0e), 1)], kind % 2 == 1 and " (best effort)" or "")
  end
  local body = BODIES[kind] or LANE_BODIES[high]
  if body then text = text .. " " .. body(r, node) end
  node:set_len(r.at - begin)
  node:set_text(text)
  return text
end

local function frames(r, tree, info)
  while r:left() > 0 do
    if r.tvb(r.at, 1):uint() == 0 then
      padding(r, tree)
      info[#info + 1] = "PADDING"
    else
      info[#info + 1] = frame(r, tree)
    end
  end
end

-- Packets (section 3) ----------------------------------------------------------------------------------------------

-- Connection ids that a packet with a right tag has named. The ids are random numbers of 64 bits.
local known_ids = {}

function arq.init() known_ids = {} end

local NO_ID = ("\0"):rep(8)

local function remember(range)
  if range:raw() ~= NO_ID then known_ids[range:raw()] = true end
end

local function id(r, tree, name, learn)
  local range = r:field(tree, name, 8)
  if learn then remember(range) end
end

local BODY = {}

BODY[HELLO] = function(r, tree, info, learn)
  id(r, tree, "scid", learn)
  r:field(tree, "instance", 8)
  info[1] = ("HELLO, attempt %d"):format(r:field(tree, "attempt", 1):uint())
  for _ = 1, r:field(tree, "version.count", 1):uint() do r:field(tree, "version", 4) end
  local is_padding = r:left() == 0 or not r.tvb:raw(r.at, r:left()):find("[^%z]")
  r:bytes(tree, is_padding and "padding" or "rest", r:left())
end

BODY[CHALLENGE] = function(r, tree, info, learn)
  id(r, tree, "dcid", learn)
  id(r, tree, "scid", learn)
  local version = r:field(tree, "version", 4):uint()
  info[1] = ("CHALLENGE to attempt %d"):format(r:field(tree, "attempt", 1):uint())
  cookie(r, tree)
  if version == CLEAR_VERSION then parameters(r, tree) else r:bytes(tree, "rest", r:left()) end
end

BODY[REFUSE] = function(r, tree, info)
  id(r, tree, "dcid")
  local reason = r:field(tree, "refuse.reason", 1):uint()
  info[1] = ("REFUSE: %s"):format(REASONS[reason] or reason)
  if reason == 1 and r:left() > 0 then
    for _ = 1, r:field(tree, "version.count", 1):uint() do r:field(tree, "version", 4) end
  elseif reason == 3 then
    r:field(tree, "refuse.alert", 1)
  end
  r:bytes(tree, "rest", r:left())
end

BODY[RESET] = function(r, tree, info)
  id(r, tree, "dcid")
  if r:left() >= 8 then
    r:field(tree, "reset.tag", 8)
    info[1] = "RESET of a sealed packet"
  else
    info[1] = ("RESET of packet %d"):format(r:field(tree, "number", 4):uint())
  end
  r:bytes(tree, "rest", r:left())
end

BODY[HANDSHAKE] = function(r, tree, info, learn)
  id(r, tree, "dcid", learn)
  id(r, tree, "scid", learn)
  r:field(tree, "version", 4)
  info[1] = ("HANDSHAKE, attempt %d"):format(r:field(tree, "attempt", 1):uint())
  r:bytes(tree, "flight", r:varint(tree, "flight.length"))
end

local function data(r, tree, info, learn)
  local flags = r.tvb(0, 1)
  tree:add(f["flags.ack_now"], flags)
  tree:add(f["flags.cookie"], flags)
  id(r, tree, "dcid", learn)
  info[1] = ("DATA %d"):format(r:field(tree, "number", 4):uint())
  if band(flags:uint(), 1) ~= 0 then info[1] = info[1] .. " ACK_NOW" end
  r:varint(tree, "span")
  if band(flags:uint(), 2) ~= 0 then
    id(r, tree, "scid", learn)
    r:field(tree, "version", 4)
    cookie(r, tree)
    local length = r:varint(tree, "parameters.length")
    if length > r:left() then fail("parameters: truncated") end
    parameters(reader(r.tvb, r.at, r.at + length), tree)
    r.at = r.at + length
    info[1] = info[1] .. " with cookie"
  end
  frames(r, tree, info)
end

for kind = 0xa8, 0xab do BODY[kind] = data end

-- The header in the clear; the rest is for those who have the keys.
local function sealed(r, tree)
  id(r, tree, "dcid")
  r:field(tree, "number.masked", 4)
  r:bytes(tree, "sealed", r:left())
end

for kind in pairs(SEALED) do BODY[kind] = sealed end

-- Reads the packet; a malformed one is shown as far as it goes.
local function body(r, tree, info, learn)
  local done, problem = pcall(BODY[r.tvb(0, 1):uint()], r, tree, info, learn)
  if done then return end
  if getmetatable(problem) ~= MALFORMED then error(problem, 0) end
  tree:add_proto_expert_info(malformed, "Malformed: " .. problem.what)
  info[#info + 1] = "malformed: " .. problem.what
end

-- Adds the tag to the tree, where the packet of that length ends; whether it is right.
local function show_tag(tvb, tree, length)
  local right = ends_right(tvb, length)
  local node = tree:add(f["tag"], tvb(length - 4, 4))
  tree:add(f["tag.good"], right):set_generated()
  if not right then node:add_proto_expert_info(bad_tag) end
  return right
end

-- One packet; what it is in short.
local function packet(tvb, tree, is_whole)
  local kind = tvb(0, 1):uint()
  local root = tree:add(arq, tvb())
  root:add(f["kind"], tvb(0, 1))
  local length = kind == HANDSHAKE and clear_length(tvb) or tvb:len()
  local info, has_tag = { KINDS[kind] }, is_whole and not SEALED[kind] and length > 4
  local right = has_tag and show_tag(tvb, root, length)
  body(reader(tvb, 1, has_tag and length - 4 or tvb:len()), root, info, right)
  if kind == HANDSHAKE and has_tag and tvb:len() > length + 4 then
    root:add(f["number"], tvb(length, 4))
    root:add(f["sealed"], tvb(length + 4))
  end
  if has_tag and not right then info[#info + 1] = "BAD TAG" end
  root:append_text(", " .. info[1])
  return table.concat(info, ", ")
end

-- Batches ----------------------------------------------------------------------------------------------------------

-- Where the second packet of a batch may begin is tried so often: payload can hold the id, too.
local MAX_TRIES = 8

-- A host whose kernel or card splits datagrams (segmentation offload) captures several packets of one length, the last
-- perhaps shorter, as one datagram. All have the id of the first. The length of one, or of all if there is but one.
local function packet_length(tvb)
  local raw, kind = tvb:raw(), tvb(0, 1):uint()
  local at, is_numbered = 0, kind >= 0xa8
  if not is_numbered or not SEALED[kind] and tag_is_right(tvb) then return #raw end
  for _ = 1, MAX_TRIES do
    at = raw:find(raw:sub(2, 9), math.max(at + 1, LEAST_LENGTH + 2), true)
    if not at then break end
    local length = at - 2
    local second = raw:byte(length + 1)
    if (second >= 0xa8 and KINDS[second]) and (SEALED[kind] or tag_is_right(tvb(0, length):tvb())) then return length end
  end
  return #raw
end

-- Calls `with` for each packet of the datagram, until one call says no.
local function each_packet(tvb, with)
  local length = packet_length(tvb)
  for begin = 0, tvb:len() - 1, length do
    if not with(tvb(begin, math.min(length, tvb:len() - begin)):tvb()) then return false end
  end
  return true
end

local function may_be_ours(tvb)
  return tvb:len() >= LEAST_LENGTH and KINDS[tvb(0, 1):uint()] ~= nil
end

function arq.dissector(tvb, pinfo, tree)
  if not may_be_ours(tvb) then return 0 end
  -- A report of ICMP quotes the begin only, a capture may keep no more of any.
  local is_whole = tvb:len() == tvb:reported_len() and not pinfo.in_error_pkt
  local infos = {}
  each_packet(tvb, function(part)
    if not may_be_ours(part) then return false end
    infos[#infos + 1] = packet(part, tree, is_whole)
    return true
  end)
  if #infos > 1 then tree:add(f["packets"], #infos):set_generated() end
  pinfo.cols.protocol = "ARQ"
  pinfo.cols.info = table.concat(infos, " | ")
  return tvb:len()
end

local function heuristic(tvb, pinfo, tree)
  if tvb:len() ~= tvb:reported_len() or not may_be_ours(tvb) then return false end
  local is_ours = each_packet(tvb, function(part)
    if not may_be_ours(part) then return false end
    return SEALED[part(0, 1):uint()] and known_ids[part(1, 8):raw()] or tag_is_right(part)
  end)
  if not is_ours then return false end
  pinfo.conversation = arq
  arq.dissector(tvb, pinfo, tree)
  return true
end

arq:register_heuristic("udp", heuristic)
DissectorTable.get("udp.port"):add_for_decode_as(arq)
