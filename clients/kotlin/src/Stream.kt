package fanfare

import org.json.JSONException
import org.json.JSONObject
import java.io.Closeable
import java.io.IOException
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.SocketTimeoutException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** An event of a stream. */
class Event internal constructor(
    /** Its name, such as "message" or "gap". */
    val event: String,
    /** Its JSON. */
    val data: JSONObject,
    /** Hand it to lastEventId to go on after this event, also after the app was ended. */
    val id: String
)

/**
 * The events of a stream, over all its connections: what was cut, or silent for too long, is opened again exactly where it
 * left off. One thread reads it, and waits in it; any thread may close it, which ends the loop of the thread that reads.
 */
class Stream internal constructor(
    private val transport: Transport,
    private val tokens: Tokens,
    private val target: String,
    private var position: String,
    private val options: StreamOptions
) : Iterator<Event>, Closeable {
    private val closing = CountDownLatch(1)
    private val events = follow()
    private var token = ""

    @Volatile
    private var connection: HttpURLConnection? = null

    private val closed get() = closing.count == 0L

    /** Waits for the next event; false: the stream is closed. Throws [FanfareException] if the server refuses it for good. */
    override fun hasNext(): Boolean = events.hasNext()

    override fun next(): Event = events.next()

    /**
     * Ends the stream. On Android a thread that waits for an event returns at once, on other JVMs, which cannot cut a
     * connection that is being read, at the server's next sign of life: after 15 s at most.
     */
    override fun close() {
        closing.countDown()
        val open = connection ?: return
        thread(isDaemon = true, name = "fanfare-close") { open.disconnect() } // it may write, which the main thread must not
    }

    private fun follow() = iterator<Event> {
        var retry = 1_000L
        var vain = 0
        var renewed = false
        while (!closed) {
            val parser = EventParser(position)
            var cut: FanfareException = Disconnected("the stream ended", false)
            try {
                val input = open()
                renewed = false
                options.onOpen()
                val piece = ByteArray(8_192)
                while (!closed) {
                    val size = input.read(piece)
                    if (size < 0 || closed) break
                    vain = 0
                    for (raw in parser.push(piece, size)) {
                        if (raw.event == "bye") throw Ended(raw.data)
                        yield(Event(raw.event, JSONObject(raw.data), raw.id))
                        position = raw.id
                    }
                    position = parser.id
                }
            } catch (err: IOException) {
                cut = asFanfare(err)
            } catch (err: JSONException) {
                cut = FanfareException("the stream is not JSON: ${err.message}", err)
            } finally {
                connection?.disconnect()
            }
            if (closed) break
            val ended = cut is Ended || cut is Problem && cut.status == 401
            if (ended) tokens.forget(token)
            if (cut is Problem && ended && !renewed) renewed = true else if (!cut.passes) throw cut
            options.onCut(cut)
            retry = parser.retry ?: retry
            // The server chose its first pause at random. The next ones grow, and are random again.
            val growing = if (vain == 0) retry else (minOf(LONGEST_PAUSE, retry shl minOf(vain, 10)) * (0.5 + Math.random() / 2)).toLong()
            if (!renewed) closing.await(cut.waitMillis + growing, TimeUnit.MILLISECONDS)
            vain++
        }
    }

    private fun open(): InputStream {
        token = tokens.get()
        val opened = transport.open("GET", target, token, OPEN_WITHIN, options.silenceMillis)
        connection = opened
        opened.setRequestProperty("Accept", "text/event-stream")
        if (position.isNotEmpty()) opened.setRequestProperty("Last-Event-ID", position)
        val status = opened.responseCode
        if (status != 200) throw Problem.of(status, opened, opened.errorStream?.use { String(it.readBytes(), Charsets.UTF_8) }.orEmpty())
        return opened.inputStream
    }

    private fun asFanfare(err: IOException): FanfareException {
        if (err is FanfareException) return err
        val why = if (err is SocketTimeoutException) "was silent for too long" else "was cut: $err"
        return Disconnected("the stream $why", false, err)
    }

    /** The token of the stream has ended. */
    private class Ended(data: String) : FanfareException("the stream ended: $data") {
        override val passes: Boolean get() = true
    }

    private companion object {
        const val OPEN_WITHIN = 10_000L
        const val LONGEST_PAUSE = 30_000L
    }
}

/** How a stream is followed. */
class StreamOptions(
    /** The id of the last event that was seen before; "": the stream begins where the contract says. */
    val lastEventId: String = "",
    /** A stream that is silent for longer is opened again. The server sends something every 15,000 ms. */
    val silenceMillis: Long = 40_000,
    /** Is told that the stream is open. */
    val onOpen: () -> Unit = {},
    /** Is told why the stream was cut, or could not be opened. It will be opened again. */
    val onCut: (FanfareException) -> Unit = {}
)
