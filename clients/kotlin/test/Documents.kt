package fanfare

import com.sun.net.httpserver.HttpServer
import org.json.JSONObject
import java.net.InetSocketAddress

// The code of the README and of docs/start/android.md is compiled with the tests: test.sh makes readme/ and guide/ of it.

internal fun theCodeOfTheDocuments() = Server().use { server ->
    System.setProperty("fanfare.url", server.url)
    readme.made = { server.token("bob") }
    val backend = backend { server.token("bob") }
    System.setProperty("app.url", "http://127.0.0.1:${backend.address.port}")
    server.chat("hello")
    val sale = """{"items": [{"sku": "sneaker:42", "stock": 1}], "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}"""
    server.call("PUT", "/v1/sales/sneakers", JSONObject(sale))
    server.call("PUT", "/v1/topics/news", JSONObject("""{"open": true}"""))
    val bob = server.client("bob")
    fun devices(): String {
        val items = bob.getNotificationSettings().getJSONArray("devices")
        return (0 until items.length()).joinToString { items.getJSONObject(it).getString("token") }
    }

    readme.register("a-token-of-firebase-1", null)
    readme.register("a-token-of-firebase-2", "a-token-of-firebase-1")
    same("a-token-of-firebase-2", devices())
    same("news", bob.listUserTopics().getJSONArray("items").getJSONObject(0).getString("topic"))
    readme.send("team", "Thank you", "send-1")
    readme.send("team", "Thank you", "send-1")
    same(2, bob.listUserChats().getJSONArray("items").getJSONObject(0).getInt("last_id"))
    readme.follow { text -> text != "hello" }
    same(0, bob.getPendingMessages().getJSONArray("chats").length())
    same("reserved", readme.reserve("cart-1"))
    same("sold out", readme.reserve("cart-2"))

    guide.register("a-token-of-firebase-3")
    guide.Messages().onNewToken("a-token-of-firebase-4")
    same("a-token-of-firebase-2, a-token-of-firebase-4", devices())
    guide.settings()
    same("""["offers"]""", bob.getNotificationSettings().getJSONArray("opt_outs").toString())
    server.call("POST", "/v1/chats", JSONObject("""{"id": "order-1042", "creator": "alice", "members": ["bob"], "message": "on its way"}"""))
    guide.readAndAnswer()
    same(2, bob.listUserChats().getJSONArray("items").getJSONObject(0).getInt("last_id"))
    same("Thank you", bob.listMessages("order-1042", after = 1).getJSONArray("items").getJSONObject(0).getString("text"))
    same(0, bob.getPendingMessages().getJSONArray("chats").length())
    same("sold_out", thrown<Problem> { guide.reserve("cart-3") }.code)
    guide.registerAtStart()
    until("the phone is registered at the start") { guide.Remembered.token == "a-token-of-firebase-5" }
    guide.logOut()
    same("a-token-of-firebase-2", devices())
    backend.stop(0)
}

/** The app's own backend, which answers POST /session. */
private fun backend(token: () -> String): HttpServer {
    val backend = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
    backend.createContext("/session") { exchange ->
        val answer = json("fanfare" to "unused", "user" to "bob", "token" to token()).toString().toByteArray()
        exchange.sendResponseHeaders(if (exchange.requestMethod == "POST") 200 else 405, answer.size.toLong())
        exchange.responseBody.use { it.write(answer) }
    }
    backend.start()
    return backend
}
