-- Functions of C run no hook. Those that would run for ever on a table that lies about its length, or on an empty text,
-- get arguments here with which their work is bounded by the script's memory.
-- `spend` counts their work in steps of the budget.
local is_over, emit, spend = ...
local getmetatable, rawget, rawlen, error, type = getmetatable, rawget, rawlen, error, type
local count = select
local MOST = 1 << 24 -- entries of a table
local LONG = 4096 -- bytes of a text whose work is counted

local function plain(name, t)
    if type(t) ~= "table" then
        error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(t) .. ")", 3)
    elseif getmetatable(t) ~= nil then
        error(name .. ": a table with a metatable", 3)
    elseif rawlen(t) > MOST then
        error(name .. ": a table with more than " .. MOST .. " entries", 3)
    end
    return t
end

local insert, remove, concat, sort, move = table.insert, table.remove, table.concat, table.sort, table.move
local unpack = table.unpack
function table.insert(t, ...)
    plain("insert", t)
    if count("#", ...) > 1 then spend(rawlen(t)) end
    return insert(t, ...)
end
function table.remove(t, ...)
    plain("remove", t)
    if count("#", ...) > 0 then spend(rawlen(t)) end
    return remove(t, ...)
end
function table.concat(t, ...)
    spend(rawlen(plain("concat", t)))
    return concat(t, ...)
end
function table.unpack(t, ...)
    spend(rawlen(plain("unpack", t)))
    return unpack(t, ...)
end
-- Lua's own comparison may compare long texts without a hook.
local function less(a, b) return a < b end
function table.sort(t, before) return sort(plain("sort", t), before or less) end
function table.move(from, first, last, at, to)
    plain("move", from)
    if to then plain("move", to) end
    if last - first > MOST then error("move: more than " .. MOST .. " entries", 2) end
    if last > first then spend(last - first) end
    return move(from, first, last, at, to or from)
end

local rep = string.rep
function string.rep(text, times, between)
    if text == "" and (between or "") == "" then return "" end
    local made = rep(text, times, between)
    if #made > LONG then spend(#made // 16) end
    return made
end
string.dump = nil
local function counted(own)
    return function(text, ...)
        if type(text) == "string" and #text > LONG then spend(#text // 16) end
        return own(text, ...)
    end
end
string.upper, string.lower, string.reverse = counted(string.upper), counted(string.lower), counted(string.reverse)
utf8.len, utf8.offset = counted(utf8.len), counted(utf8.offset)

-- An exceeded budget is no error that a script may handle.
local call = pcall
local function pass(done, why, ...)
    if done then return done, why, ... end
    local over, text = is_over(why)
    if over then error(why, 0) end
    return done, text or why
end
function pcall(f, ...) return pass(call(f, ...)) end

local text_of, join = tostring, concat
function print(...)
    local parts = { ... }
    for at = 1, count("#", ...) do parts[at] = text_of(parts[at]) end
    emit(join(parts, "\t"))
end

-- Finalizers run without a hook too.
local set = setmetatable
_G.setmetatable = function(t, meta)
    if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
        error("setmetatable: __gc is not for scripts", 2)
    end
    return set(t, meta)
end

for _, name in ipairs { "collectgarbage", "dofile", "load", "loadfile", "loadstring", "require", "warn", "xpcall" } do
    _G[name] = nil
end
