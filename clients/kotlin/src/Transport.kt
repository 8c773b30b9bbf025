package fanfare

import org.json.JSONException
import org.json.JSONObject
import java.io.ByteArrayOutputStream
import java.io.EOFException
import java.io.IOException
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.SocketTimeoutException
import java.net.URL
import java.net.URLEncoder

/** The user token in use, and the function that gets another one when it has ended. */
internal class Tokens(private val source: () -> String?) {
    private var current: String? = null

    /** The token; one call of the function for all threads. Throws [LoggedOut] if there is none any more. */
    @Synchronized
    fun get(): String = current ?: fresh().also { current = it }

    @Synchronized
    fun forget(token: String) {
        if (current == token) current = null
    }

    private fun fresh(): String {
        val token = try {
            source()
        } catch (err: InterruptedException) {
            throw err
        } catch (err: Exception) { // the function is the app's, and may throw anything
            throw Disconnected("no user token: $err", false, err)
        }
        return token ?: throw LoggedOut()
    }
}

/** A call, as it is sent each time. */
internal class Request(val method: String, val target: String, body: JSONObject?, idempotencyKey: String?, val waitMillis: Long) {
    val body: ByteArray? = body?.toString()?.toByteArray()

    // The POSTs whose answer is a secret take no key.
    val idempotencyKey: String? = idempotencyKey ?: if (method == "POST" && !SECRET.matches(target)) randomKey() else null

    /** Whether doing it twice does no harm. */
    val repeatable: Boolean = method != "POST" || this.idempotencyKey != null

    private companion object {
        val SECRET = Regex("/v1/users/[^/]+/(tokens|tickets)")
    }
}

/** Sends requests over the platform's own HTTP, which keeps connections, knows proxies and trusts what the app trusts. */
internal class Transport(url: String) {
    private val base = url.trimEnd('/')

    /** Sends a request and reads the whole answer within some milliseconds. Throws [Problem] or [Disconnected]. */
    fun send(request: Request, token: String, withinMillis: Long): JSONObject? {
        val end = now() + withinMillis
        val connection = open(request.method, request.target, token, withinMillis, withinMillis)
        var sent = false
        try {
            request.idempotencyKey?.let { connection.setRequestProperty("Idempotency-Key", it) }
            request.body?.let { prepare(connection, it, request.repeatable) }
            connection.connect()
            sent = true
            request.body?.let { body -> connection.outputStream.use { it.write(body) } }
            return answer(connection, end)
        } catch (err: Problem) {
            throw err
        } catch (err: JSONException) {
            throw FanfareException("${request.method} ${request.target}: the answer is not JSON", err)
        } catch (err: IOException) {
            connection.disconnect()
            val why = if (err is SocketTimeoutException) "no answer in time" else "no answer"
            throw Disconnected("${request.method} ${request.target}: $why: $err", sent, err)
        }
    }

    /** A connection that is not opened yet. */
    fun open(method: String, target: String, token: String, connectMillis: Long, readMillis: Long): HttpURLConnection {
        val connection = URL(base + target).openConnection() as HttpURLConnection
        connection.requestMethod = method
        connection.connectTimeout = millis(connectMillis)
        connection.readTimeout = millis(readMillis)
        connection.instanceFollowRedirects = false
        connection.useCaches = false
        connection.setRequestProperty("Authorization", "Bearer $token")
        return connection
    }

    private fun prepare(connection: HttpURLConnection, body: ByteArray, repeatable: Boolean) {
        connection.doOutput = true
        connection.setRequestProperty("Content-Type", "application/json")
        // The platform would repeat a buffered request by itself when its connection breaks.
        if (!repeatable) connection.setFixedLengthStreamingMode(body.size)
    }

    private fun answer(connection: HttpURLConnection, end: Long): JSONObject? {
        val status = connection.responseCode
        val good = status in 200..299
        val stream = if (good) connection.inputStream else connection.errorStream
        val bytes = stream?.use { read(it, end) } ?: ByteArray(0)
        if (good && connection.contentLength >= 0 && bytes.size != connection.contentLength) throw EOFException("the answer broke off")
        val text = String(bytes, Charsets.UTF_8)
        if (!good) throw Problem.of(status, connection, text)
        return if (text.isEmpty()) null else JSONObject(text)
    }

    private fun read(stream: InputStream, end: Long): ByteArray {
        val whole = ByteArrayOutputStream()
        val piece = ByteArray(8_192)
        while (true) {
            val size = stream.read(piece)
            if (size < 0) return whole.toByteArray()
            whole.write(piece, 0, size)
            if (now() > end) throw SocketTimeoutException("the time is over")
        }
    }

    private fun millis(time: Long): Int = time.coerceIn(1, Int.MAX_VALUE.toLong()).toInt() // 0 would be no limit
}

/** Puts parameters into a path, and a query behind it. What is null in the query is left out. */
internal fun target(path: String, params: Map<String, String>, query: Map<String, Any?>): String {
    val filled = Regex("\\{(\\w+)\\}").replace(path) { match ->
        val value = params[match.groupValues[1]].orEmpty()
        require(value !in setOf("", ".", "..")) { "$path: ${match.groupValues[1]} can't be \"$value\"" }
        escape(value)
    }
    val given = query.filterValues { it != null }.map { (name, value) -> "${escape(name)}=${escape(value.toString())}" }
    return if (given.isEmpty()) filled else filled + given.joinToString("&", "?")
}

private fun escape(text: String): String = URLEncoder.encode(text, "UTF-8").replace("+", "%20")

/** A clock that nobody sets, in milliseconds. */
internal fun now(): Long = System.nanoTime() / 1_000_000

internal fun randomKey(): String = java.util.UUID.randomUUID().toString()

/** Milliseconds before repetition n (0, 1, 2 ...): exponential, with full jitter, on top of what the server asks for. */
internal fun backoff(n: Int, least: Long): Long = least + (Math.random() * minOf(10_000L, 500L shl minOf(n, 10))).toLong()
