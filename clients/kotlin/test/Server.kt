package fanfare

import org.json.JSONObject
import java.io.Closeable
import java.io.File
import java.io.IOException
import java.net.HttpURLConnection
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.net.URL
import java.util.Collections
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** Waits until something is true, for a minute at most. */
fun until(what: String, condition: () -> Boolean) {
    val end = now() + 60_000
    while (!condition()) {
        if (now() > end) throw AssertionError("not in a minute: $what")
        Thread.sleep(20)
    }
}

fun same(want: Any?, got: Any?) {
    if (want != got) throw AssertionError("want $want, got $got")
}

/** What a block throws, which has to be a [T]. */
inline fun <reified T : Throwable> thrown(block: () -> Unit): T {
    try {
        block()
    } catch (err: Throwable) {
        if (err is T) return err
        throw AssertionError("another exception: $err", err)
    }
    throw AssertionError("no ${T::class.java.simpleName}")
}

val KEY = "ff_${"k".repeat(26)}_${"s".repeat(52)}"

/** A server on one port and in one folder, so that it can be killed and started again. [KEY] has all scopes. */
class Server : Closeable {
    private val folder = createTempFolder()
    private lateinit var process: Process
    var url = ""
        private set

    init {
        File(folder, "key").writeText(KEY)
        start()
    }

    fun crash() {
        process.destroyForcibly().waitFor()
        start()
    }

    override fun close() {
        process.destroy()
        if (!process.waitFor(20, TimeUnit.SECONDS)) process.destroyForcibly().waitFor()
        folder.deleteRecursively()
    }

    private fun start() {
        val log = File(folder, "log")
        val builder = ProcessBuilder(System.getenv("FANFARE_PROGRAM")).directory(folder).redirectErrorStream(true).redirectOutput(log)
        builder.environment().keys.retainAll(setOf("PATH", "HOME"))
        builder.environment()["FANFARE_EMBEDDED"] = "memory"
        builder.environment()["FANFARE_ADDR"] = url.removePrefix("http://").ifEmpty { "127.0.0.1:0" }
        builder.environment()["FANFARE_ADMIN_KEY_FILE"] = File(folder, "key").path
        process = builder.start()
        until("a server") {
            if (!process.isAlive) throw AssertionError(log.readText())
            Regex("\"docs\":\"(http://[0-9.:]+)/docs/\"").find(log.readText())?.let { url = it.groupValues[1] }
            url.isNotEmpty() && try {
                (URL("$url/readyz").openConnection() as HttpURLConnection).responseCode == 200
            } catch (err: IOException) {
                false
            }
        }
    }

    /** A call of the app's backend, which has an API key. */
    fun call(method: String, path: String, body: JSONObject? = null): JSONObject? {
        val request = Request(method, path, body, null, 0)
        return Transport(url).send(request, KEY, 10_000)
    }

    /** A user token that the app's backend makes. */
    fun token(user: String, seconds: Int = 3_600): String {
        val body = JSONObject("""{"scopes": ["devices", "chat", "buy"], "ttl_seconds": $seconds}""")
        return call("POST", "/v1/users/$user/tokens", body)!!.getString("token")
    }

    fun client(user: String, url: String = this.url): Client = Client(url, user, { token(user) })

    fun chat(vararg texts: String) {
        call("POST", "/v1/chats", JSONObject("""{"id": "team", "creator": "alice", "members": ["bob"]}"""))
        texts.forEach { say(it) }
    }

    fun say(text: String) {
        call("POST", "/v1/chats/team/messages", json("sender" to "alice", "text" to text))
    }

    private fun createTempFolder(): File = java.nio.file.Files.createTempDirectory("fanfare-kotlin-").toFile()
}

/** A proxy that can lose answers, fall silent, and note what passes. */
class Proxy(target: String) : Closeable {
    private val port = target.substringAfterLast(':').toInt()
    private val listener = ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))
    private val sockets = Collections.synchronizedSet(HashSet<Socket>())
    private val frozen = Collections.synchronizedSet(HashSet<Socket>())

    /** Whether the next answer is lost: its request has arrived, and the connection is cut in its place. */
    @Volatile
    var loses: () -> Boolean = { false }

    @Volatile
    var lost = 0
    val requests: MutableList<String> = Collections.synchronizedList(ArrayList<String>())
    val url = "http://127.0.0.1:${listener.localPort}"

    init {
        thread(isDaemon = true) {
            try {
                while (true) pair(listener.accept(), Socket("127.0.0.1", port))
            } catch (err: IOException) {
            }
        }
    }

    /** Passes nothing on any more over the connections that are open, without closing them. */
    fun freeze() = synchronized(sockets) { frozen.addAll(sockets) }

    override fun close() {
        listener.close()
        synchronized(sockets) { sockets.forEach { it.close() } }
    }

    private fun pair(client: Socket, server: Socket) {
        sockets.add(client)
        sockets.add(server)
        thread(isDaemon = true) { pass(client, server, false) }
        thread(isDaemon = true) { pass(server, client, true) }
    }

    private fun pass(source: Socket, sink: Socket, answers: Boolean) {
        val piece = ByteArray(1 shl 16)
        try {
            while (true) {
                val size = source.getInputStream().read(piece)
                if (size < 0) break
                if (source in frozen) continue
                if (answers && loses()) {
                    lost++
                    break
                }
                if (!answers) requests.add(String(piece, 0, size, Charsets.UTF_8))
                sink.getOutputStream().write(piece, 0, size)
            }
        } catch (err: IOException) {
        }
        source.close()
        sink.close()
    }
}
