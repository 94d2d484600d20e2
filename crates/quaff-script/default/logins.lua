-- Logins by FTP and telnet, which send names and passwords as text. Passwords are recorded with
-- --set passwords=true only.
local PASSWORDS = argument("passwords", false)
local rows = list("logins", { "time", "client", "server", "protocol", "user", "result", "password" })

local function add(flow, state, protocol, result)
    rows:add {
        flow.last, flow.client, flow.server, protocol, state.user, result, PASSWORDS and state.password or nil,
    }
    state.user, state.password, state.is_asked = nil, nil, nil
end

on("line", { ports = { 21 } }, function(flow, line)
    local state, text = flow.state, line.text
    if line.from == "client" then
        state.user = text:match("^[Uu][Ss][Ee][Rr]%s+(.*)") or state.user
        if PASSWORDS then state.password = text:match("^[Pp][Aa][Ss][Ss]%s+(.*)") or state.password end
    elseif state.user and text:find("^230") then
        add(flow, state, "ftp", "accepted")
    elseif state.user and text:find("^530") then
        add(flow, state, "ftp", "refused")
    end
end)

-- A telnet server echoes the name after its prompt, and no password.
on("line", { ports = { 23 } }, function(flow, line)
    local state, text = flow.state, line.text
    if line.from == "client" then
        if PASSWORDS and state.is_asked then state.password, state.is_asked = text, nil end
        return
    end
    local user = text:match("[Ll]ogin:%s*(%S+)") or text:match("[Uu]sername:%s*(%S+)")
    if text:find("[Ll]ast login") or text:find("[Ww]elcome") then
        if state.user then add(flow, state, "telnet", "accepted") end
    elseif text:find("[Ii]ncorrect") or text:find("[Ff]ailed") or text:find("[Ii]nvalid") then
        if state.user then add(flow, state, "telnet", "refused") end
    elseif user then
        state.user = user
        state.is_asked = true
    end
end)

on("flow_end", { ports = { 21, 23 } }, function(flow)
    local state = flow.state
    if state.user then add(flow, state, flow.server_port == 21 and "ftp" or "telnet", "unknown") end
end)
