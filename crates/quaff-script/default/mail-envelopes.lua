-- Mail envelopes: who sends to whom over SMTP, with the subject and the size. What STARTTLS hides stays hidden.
local rows = list("mail", { "time", "client", "server", "helo", "from", "to", "subject", "lines", "code" })
local RECIPIENTS = 50

local function command(flow, state, text)
    local word = text:match("^%a+"):upper()
    if word == "EHLO" or word == "HELO" then
        state.helo = text:match("^%a+%s+(%S+)")
    elseif word == "MAIL" then
        state.from, state.to, state.subject = text:match("[Ff][Rr][Oo][Mm]:%s*<?([^>%s]*)"), {}, nil
    elseif word == "RCPT" and state.to and #state.to < RECIPIENTS then
        state.to[#state.to + 1] = text:match("[Tt][Oo]:%s*<?([^>%s]*)")
    elseif word == "DATA" and state.from then
        state.is_data, state.lines, state.is_head = true, 0, true
    elseif word == "STARTTLS" then
        state.is_hidden = true
    end
end

local function mail(state, text)
    if text == "." then
        state.is_data, state.is_sent = false, true
        return
    end
    state.lines = state.lines + 1
    if text == "" then state.is_head = false end
    if state.is_head then state.subject = state.subject or text:match("^[Ss][Uu][Bb][Jj][Ee][Cc][Tt]:%s*(.*)") end
end

on("line", { ports = { 25, 587, 2525 } }, function(flow, line)
    local state, text = flow.state, line.text
    if state.is_hidden then return end
    if line.from == "client" then
        if state.is_data then
            mail(state, text)
        elseif text:find("^%a") then
            command(flow, state, text)
        end
    elseif state.is_sent and text:find("^%d%d%d") then
        rows:add {
            flow.last, flow.client, flow.server, state.helo, state.from, state.to, state.subject, state.lines,
            tonumber(text:sub(1, 3)),
        }
        state.is_sent, state.from = false, nil
    elseif state.is_data and text:find("^[45]%d%d") then
        state.is_data = false -- the server refused DATA
    end
end)
