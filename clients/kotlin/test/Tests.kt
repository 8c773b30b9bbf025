package fanfare

import org.json.JSONObject
import java.io.File
import java.io.IOException
import java.net.InetAddress
import java.net.ServerSocket
import java.util.Collections
import java.util.Date
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread
import kotlin.system.exitProcess

/** The methods of the client that are no operations of the contract. */
private val OWN = setOf("call", "getUser")

private fun eachMethodIsAnOperation() {
    val document = JSONObject(File(System.getenv("FANFARE_OPENAPI")).readText()).getJSONObject("paths")
    val operations = HashSet<String>()
    for (path in document.keys()) {
        val methods = document.getJSONObject(path as String)
        for (method in methods.keys()) operations.add(methods.getJSONObject(method as String).getString("operationId"))
    }
    val methods = Client::class.java.declaredMethods.filter { it.modifiers and 1 == 1 && '$' !in it.name }.map { it.name }.toSet()
    same(emptySet<String>(), methods - operations - OWN)
    if (methods.size < 20) throw AssertionError("only $methods")
}

private fun eventsAreReadFromPiecesOfAnySize() {
    val text = ": hello\n\nretry: 1500\r\n\r\nid: 7\nevent: message\ndata: {\"a\":\r\ndata: 1}\n\nid: 8\n\rdata:ü\r\rdata\n\n: beat\n\nid: 9\n\ndata: late"
    val bytes = text.toByteArray()
    for (size in 1..bytes.size) {
        val parser = EventParser("")
        val got = bytes.toList().chunked(size).flatMap { parser.push(it.toByteArray(), it.size) }.map { "${it.event} ${it.data} ${it.id}" }
        same(listOf("message {\"a\":\n1} 7", "message ü 8", "message  8"), got)
        same("9" to 1_500L, parser.id to parser.retry)
    }
}

private fun aPhoneAndItsSettings() = Server().use { server ->
    val bob = server.client("bob")
    val old = "bobs-phone:APA91bHPRgkF"
    val new = "bobs-phone:APA91bHPRgkG"
    same("fcm", bob.putDevice(old, "com.example.shop", "en-GB").getString("platform"))
    bob.putDevice(old, "com.example.shop", "en-GB", replaces = old)
    val rotated = bob.putDevice(new, "com.example.shop", "de-AT", replaces = old)
    same(listOf(new, "de-AT"), listOf(rotated.getString("token"), rotated.getString("locale")))
    bob.putOptOut("news")
    bob.putOptOut("ads")
    bob.deleteOptOut("ads")
    bob.putMute("chat:team", Date(4_070_908_800_000))
    bob.putMute("chat:other")
    bob.deleteMute("chat:other")
    val settings = bob.getNotificationSettings()
    same("[\"news\"]", settings.getJSONArray("opt_outs").toString())
    same(listOf("chat:team", "2099-01-01T00:00:00.000Z"), settings.getJSONArray("mutes").getJSONObject(0).let { listOf(it.getString("object"), it.getString("until")) })
    same(1 to 1, settings.getJSONArray("mutes").length() to settings.getJSONArray("devices").length())
    bob.deleteDevice(new)
    same(0, bob.getNotificationSettings().getJSONArray("devices").length())
}

private fun aBadge() = Server().use { server ->
    val bob = server.client("bob")
    same(0 to 0L, bob.getBadge().let { it.getInt("count") to it.getLong("version") })
    val set = bob.putBadge(3, clear = true)
    same(2, bob.postBadge(-1, "seen-1").getInt("count"))
    same(2, bob.postBadge(-1, "seen-1").getInt("count"))
    val last = bob.getBadge()
    same(2 to set.getString("since"), last.getInt("count") to last.getString("since"))
    same("forbidden", thrown<Problem> { bob.call("GET", "/v1/users/eve/badge") }.code)
}

private fun openedNotifications() = Server().use { server ->
    val bob = server.client("bob")
    bob.putDevice("bobs-phone:APA91bHPRgkF", "com.example.shop")
    server.call("PUT", "/v1/event-types/photo", JSONObject("""{"title": "New photo", "opened": true}"""))
    val event = server.call("POST", "/v1/events", JSONObject("""{"type": "photo", "audience": {"users": ["bob"]}}"""))!!.getString("id")
    val report = { server.call("GET", "/v1/events/$event")!! }
    until("the event is done") { report().getString("state") == "done" }
    repeat(2) { bob.postOpened(event, "bobs-phone:APA91bHPRgkF") }
    bob.postDismissed(event)
    same(1 to 1, report().let { it.getInt("opened") to it.getInt("dismissed") })
    same("not_found", thrown<Problem> { server.client("eve").postOpened(event) }.code)
}

private fun topics() = Server().use { server ->
    val bob = server.client("bob")
    same("forbidden", thrown<Problem> { bob.joinTopic("news") }.code)
    server.call("PUT", "/v1/topics/news", JSONObject("""{"open": true}"""))
    bob.joinTopic("news")
    same("news", bob.listUserTopics(limit = 10).getJSONArray("items").getJSONObject(0).getString("topic"))
    bob.leaveTopic("news")
    same(0, bob.listUserTopics().getJSONArray("items").length())
}

private fun aChat() = Server().use { server ->
    server.chat("hello")
    val bob = server.client("bob")
    same(1, bob.listUserChats().getJSONArray("items").getJSONObject(0).getInt("unread"))
    val pending = bob.getPendingMessages(waitMillis = 5_000, limit = 10).getJSONArray("chats").getJSONObject(0)
    same("hello", pending.getJSONArray("items").getJSONObject(0).getString("text"))
    same(1, bob.ackMessages(mapOf("team" to 1L)).getJSONObject("acked").getInt("team"))
    same(0, bob.getPendingMessages().getJSONArray("chats").length())
    same(2, bob.postMessage("team", "Thänk you", mapOf("picture" to "p1"), "send-1").getInt("id"))
    same(2, bob.postMessage("team", "Thänk you", mapOf("picture" to "p1"), "send-1").getInt("id"))
    val own = bob.listMessages("team", after = 1).getJSONArray("items").getJSONObject(0)
    same("Thänk you" to "p1", own.getString("text") to own.getJSONObject("data").getString("picture"))
    bob.deleteMessage("team", 2)
    same(true, bob.listMessages("team", before = 3, limit = 1).getJSONArray("items").getJSONObject(0).getBoolean("redacted"))
    bob.leaveChat("team")
    same("not_found", thrown<Problem> { bob.listMessages("team") }.code)
}

private fun aSaleThatSellsOut() = Server().use { server ->
    val sale = """{"items": [{"sku": "sneaker:42", "stock": 2}], "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}"""
    server.call("PUT", "/v1/sales/spring", JSONObject(sale))
    val bob = server.client("bob")
    val left = ArrayList<Int>()
    bob.streamSale("spring").use { stream ->
        for (event in stream) {
            left.add(event.data.getJSONObject("available").getInt("sneaker:42"))
            if (left.last() == 0) break
            bob.postReservation("spring", mapOf("sneaker:42" to 1), "cart-${left.size}")
        }
    }
    same(listOf(2, 1, 0), left)
    val began = now()
    val soldOut = thrown<Problem> { Client(server.url, "bob", { server.token("bob") }, attempts = 1_000_000).postReservation("spring", mapOf("sneaker:42" to 1)) }
    same(listOf("sold_out", true, 409, 0), listOf(soldOut.code, soldOut.retryable, soldOut.status, soldOut.facts.getJSONObject("available").getInt("sneaker:42")))
    if (now() - began > 20_000) throw AssertionError("a 409 was repeated")
    val held = bob.postReservation("spring", mapOf("sneaker:42" to 1), "cart-1")
    same("released", bob.releaseReservation("spring", held.getString("id")).getString("state"))
    same(1, bob.getSale("spring").getJSONArray("items").getJSONObject(0).getInt("available"))
}

private fun lostAnswersChangeNothing() = Server().use { server ->
    Proxy(server.url).use { proxy ->
        server.chat()
        val bob = Client(proxy.url, "bob", { server.token("bob") }, attempts = 20)
        val turn = AtomicInteger()
        proxy.loses = { turn.getAndIncrement() % 3 != 0 } // two in a row: the JVM repeats once by itself
        for (i in 1..8) same(i, bob.postMessage("team", "$i").getInt("id"))
        proxy.loses = { false }
        if (proxy.lost < 8) throw AssertionError("only ${proxy.lost} answers were lost")
        val items = bob.listMessages("team", after = 0).getJSONArray("items")
        same((1..8).joinToString(), (0 until items.length()).joinToString { items.getJSONObject(it).getString("text") })
    }
}

private fun whatTakesNoKeyIsNotRepeated() = Server().use { server ->
    Proxy(server.url).use { proxy ->
        val bob = server.client("bob", proxy.url)
        bob.listUserChats() // a connection is open
        proxy.loses = { true }
        val before = proxy.requests.size
        val gone = thrown<Disconnected> { bob.call("POST", "/v1/users/{user}/tickets", body = JSONObject()) }
        same(true to 1, gone.mayHaveHappened to proxy.requests.subList(before, proxy.requests.size).count { it.startsWith("POST") })
    }
}

private fun retryAfterIsRespectedUnderOneKey() {
    val keys = Collections.synchronizedList(ArrayList<String>())
    val times = Collections.synchronizedList(ArrayList<Long>())
    ServerSocket(0, 50, InetAddress.getByName("127.0.0.1")).use { listener ->
        thread(isDaemon = true) {
            while (true) (try { listener.accept() } catch (err: IOException) { null } ?: break).use { socket ->
                val lines = socket.getInputStream().bufferedReader()
                val head = generateSequence { lines.readLine() }.takeWhile { it.isNotEmpty() }.toList()
                val length = head.first { it.startsWith("Content-Length: ") }.substringAfter(' ').toInt()
                repeat(length) { lines.read() }
                keys.add(head.first { it.startsWith("Idempotency-Key: ") })
                times.add(now())
                val good = keys.size % 3 == 0
                val body = if (good) """{"id": 7}""" else """{"code": "overloaded", "retryable": true, "detail": "busy"}"""
                val status = if (good) "201 Created" else "503 Service Unavailable"
                socket.getOutputStream().write("HTTP/1.1 $status\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n$body".toByteArray())
            }
        }
        val url = "http://127.0.0.1:${listener.localPort}"
        same(7, Client(url, "bob", { "t" }).postMessage("team", "x").getInt("id"))
        same(listOf(3, 1), listOf(keys.size, keys.toSet().size))
        if (minOf(times[1] - times[0], times[2] - times[1]) < 1_000) throw AssertionError("Retry-After was not respected: $times")
        val busy = thrown<Problem> { Client(url, "bob", { "t" }, timeoutMillis = 900).postMessage("team", "x") }
        same(listOf("overloaded", 1_000L, 4), listOf(busy.code, busy.retryAfterMillis, keys.size))
    }
}

private fun aCallEndsInTime() = ServerSocket(0, 50, InetAddress.getByName("127.0.0.1")).use { listener ->
    val url = "http://127.0.0.1:${listener.localPort}" // accepts, and never answers
    val gone = thrown<Disconnected> { Client(url, "bob", { "t" }, attempts = 2, attemptTimeoutMillis = 100).listUserChats() }
    same(true, gone.mayHaveHappened && "in time" in gone.message!!)
    listener.close()
    same(false, thrown<Disconnected> { Client(url, "bob", { "t" }, attempts = 2).listUserChats() }.mayHaveHappened)
}

private fun parametersAreEscaped() {
    same("/v1/a/b%2Fc%20%3Fd/x?e=1%262&g=true", target("/v1/a/{b}/x", mapOf("b" to "b/c ?d"), mapOf("e" to "1&2", "f" to null, "g" to true)))
    for (bad in listOf("", ".", "..")) thrown<IllegalArgumentException> { target("/v1/a/{b}", mapOf("b" to bad), emptyMap()) }
}

private fun aTokenIsRenewedOnce() = Server().use { server ->
    val made = AtomicInteger()
    val bob = Client(server.url, "bob", { if (made.getAndIncrement() == 0) "ended" else server.token("bob") })
    same(0, bob.getPendingMessages().getJSONArray("chats").length())
    bob.listUserChats()
    same(2, made.get())
    val wrong = AtomicInteger()
    same(401, thrown<Problem> { Client(server.url, "bob", { "wrong${wrong.getAndIncrement()}" }).postMessage("team", "x") }.status)
    same(2, wrong.get())
    thrown<LoggedOut> { Client(server.url, "bob", { null }).listUserChats() }
    same(false, thrown<Disconnected> { Client(server.url, "bob", { error("no network") }, attempts = 2).listUserChats() }.mayHaveHappened)
}

private fun aStreamGoesOnOverSilence() = Server().use { server ->
    Proxy(server.url).use { proxy ->
        server.chat("0")
        val seen = ArrayList<String>()
        val cuts = Collections.synchronizedList(ArrayList<String>())
        val options = StreamOptions(silenceMillis = 1_000, onCut = { cuts.add("$it") })
        server.client("bob", proxy.url).streamMessages(options).use { stream ->
            for (event in stream) {
                seen.add(event.data.getString("text"))
                if (seen.size == 3) break
                proxy.freeze()
                server.say("${seen.size}")
            }
        }
        same("0, 1, 2", seen.joinToString())
        if (cuts.size < 2 || !cuts.all { "silent" in it }) throw AssertionError("$cuts")
    }
}

private fun aStreamResumesAndIsClosed() = Server().use { server ->
    server.chat("one", "two")
    val bob = server.client("bob")
    val first = bob.streamMessages().use { it.next() }
    same("message" to "one", first.event to first.data.getString("text"))
    val stream = bob.streamMessages(StreamOptions(lastEventId = first.id))
    same("two", stream.next().data.getString("text"))
    var more = true
    val reader = thread { more = stream.hasNext() }
    stream.close()
    server.say("three") // a sign of life
    reader.join(30_000)
    same(false, reader.isAlive || more)
}

private fun aStreamOutlivesItsTokenAndTheServer() = Server().use { server ->
    server.chat("0")
    val made = AtomicInteger()
    val cuts = Collections.synchronizedList(ArrayList<String>())
    val bob = Client(server.url, "bob", { if (made.getAndIncrement() < 2) server.token("bob", 2) else null })
    val seen = Collections.synchronizedList(ArrayList<String>())
    var ended: Throwable? = null
    val reader = thread {
        ended = try {
            for (event in bob.streamMessages(StreamOptions(onCut = { cuts.add("$it") }))) seen.add(event.data.getString("text"))
            null
        } catch (err: Throwable) {
            err
        }
    }
    until("another token") { made.get() == 2 }
    server.say("1")
    reader.join(60_000)
    same(true, ended is LoggedOut)
    same("0, 1" to true, seen.joinToString() to ("expired" in cuts.first()))
    same(401, thrown<Problem> { Client(server.url, "bob", { "wrong" }).streamMessages().next() }.status)
}

private fun aStreamWaitsForAServerThatWasKilled() = Server().use { server ->
    val bob = server.client("bob")
    val sale = """{"items": [{"sku": "a", "stock": 2}], "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}"""
    server.call("PUT", "/v1/sales/spring", JSONObject(sale))
    val opened = AtomicInteger()
    bob.streamSale("spring", StreamOptions(onOpen = { opened.incrementAndGet() })).use { stream ->
        same(2, stream.next().data.getJSONObject("available").getInt("a"))
        server.crash()
        same(2, stream.next().data.getJSONObject("available").getInt("a"))
        same(2, opened.get())
    }
}

private val TESTS = listOf(
    "each method is an operation of the contract" to ::eachMethodIsAnOperation,
    "events are read from pieces of any size" to ::eventsAreReadFromPiecesOfAnySize,
    "parameters are escaped" to ::parametersAreEscaped,
    "a phone and its settings" to ::aPhoneAndItsSettings,
    "a badge" to ::aBadge,
    "opened notifications" to ::openedNotifications,
    "topics" to ::topics,
    "a chat" to ::aChat,
    "a sale that sells out" to ::aSaleThatSellsOut,
    "lost answers change nothing" to ::lostAnswersChangeNothing,
    "what takes no key is not repeated" to ::whatTakesNoKeyIsNotRepeated,
    "Retry-After is respected, under one key" to ::retryAfterIsRespectedUnderOneKey,
    "a call ends in time" to ::aCallEndsInTime,
    "a token is renewed once" to ::aTokenIsRenewedOnce,
    "a stream resumes and is closed" to ::aStreamResumesAndIsClosed,
    "a stream goes on over silence" to ::aStreamGoesOnOverSilence,
    "a stream outlives its token" to ::aStreamOutlivesItsTokenAndTheServer,
    "a stream waits for a server that was killed" to ::aStreamWaitsForAServerThatWasKilled,
    "the code of the documents" to ::theCodeOfTheDocuments
)

fun main(args: Array<String>) {
    val chosen = TESTS.filter { (name, _) -> args.isEmpty() || args.any { it in name } }
    val failed = Collections.synchronizedList(ArrayList<String>())
    val next = AtomicInteger()
    val workers = List(2) {
        thread {
            while (true) {
                val (name, test) = chosen.getOrNull(next.getAndIncrement()) ?: break
                try {
                    test()
                    println("ok: $name")
                } catch (err: Throwable) {
                    failed.add(name)
                    println("FAILED: $name")
                    err.printStackTrace(System.out)
                }
            }
        }
    }
    workers.forEach { it.join() }
    println("${chosen.size - failed.size} passed, ${failed.size} failed")
    if (failed.isNotEmpty()) exitProcess(1)
}
