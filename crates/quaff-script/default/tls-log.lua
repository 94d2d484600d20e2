-- TLS log: a row for each connection with the name that the client asked for, its fingerprint (JA4), and the version
-- and the cipher that the server chose.
local rows = list("tls", { "time", "client", "server", "port", "server_name", "alpn", "ja4", "version", "cipher" })

local function add(flow, client, server)
    rows:add {
        flow.start, flow.client, flow.server, flow.server_port, client.server_name, client.alpn, client.ja4,
        server.version, server.cipher and string.format("0x%04x", server.cipher),
    }
    flow.state.hello = nil
end

on("tls_hello", {}, function(flow, hello)
    if hello.ja4 then
        -- A second hello answers a HelloRetryRequest: the fingerprint is that of the first.
        if flow.state.hello then return end
        local alpn = table.concat(hello.alpn, ",")
        flow.state.hello = { server_name = hello.server_name, alpn = alpn, ja4 = hello.ja4 }
    elseif not hello.retry then
        add(flow, flow.state.hello or {}, hello)
    end
end)

on("flow_end", {}, function(flow)
    if flow.state.hello then add(flow, flow.state.hello, {}) end
end)
