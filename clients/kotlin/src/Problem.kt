package fanfare

import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject
import java.io.IOException
import java.net.HttpURLConnection

/** What went wrong with a call or a stream: a [Problem], a [Disconnected] or a [LoggedOut]. */
open class FanfareException internal constructor(message: String, cause: Throwable? = null) : IOException(message, cause) {
    /** false: the request certainly had no effect. true: it may have had one. */
    open val mayHaveHappened: Boolean get() = false

    /** Whether waiting a moment may help. */
    internal open val passes: Boolean get() = false

    /** How long to wait at least, in milliseconds. */
    internal open val waitMillis: Long get() = 0
}

/** An answer that is a refusal: the problem document of the server (RFC 9457), or an error of a proxy in between. */
class Problem internal constructor(
    /** The HTTP status. */
    val status: Int,
    /** The whole document, with facts such as available or version; empty if the answer came from a proxy. */
    val facts: JSONObject,
    text: String,
    /** Names the request in the server's log. */
    val requestId: String,
    retryAfterSeconds: Long?
) : FanfareException("$status ${facts.optString("code", "without a code")}: ${facts.optString("detail", text.take(200))}") {
    /** What programs branch on, such as "sold_out"; "" if the answer came from a proxy. */
    val code: String = facts.optString("code", "")

    /** A sentence for people. */
    val detail: String = facts.optString("detail", text.take(200))

    /** The fields that break a rule (validation_failed): field, rule and message. */
    val errors: JSONArray = facts.optJSONArray("errors") ?: JSONArray()

    /** Whether the same call, unchanged, may succeed later. */
    val retryable: Boolean = if (code.isEmpty()) status in PROXIES else facts.optBoolean("retryable")

    /** How long to wait before the call is repeated, in milliseconds. */
    val retryAfterMillis: Long? = if (facts.has("retry_after_ms")) facts.optLong("retry_after_ms") else retryAfterSeconds?.times(1_000)

    override val mayHaveHappened: Boolean get() = status >= 500 && code in UNKNOWN

    // A 409 such as sold_out is what the caller wanted to know. When to ask again is the caller's choice.
    override val passes: Boolean get() = retryable && status != 409
    override val waitMillis: Long get() = retryAfterMillis ?: 0

    internal companion object {
        private val PROXIES = setOf(429, 502, 503, 504)
        private val UNKNOWN = setOf("", "unknown_outcome", "internal")

        /** Makes a problem of an answer whose body has been read. */
        fun of(status: Int, connection: HttpURLConnection, text: String): Problem {
            val facts = try {
                if ("json" in connection.contentType.orEmpty()) JSONObject(text) else JSONObject()
            } catch (err: JSONException) {
                JSONObject()
            }
            val header = connection.getHeaderField("Retry-After")
            val date = connection.getHeaderFieldDate("Retry-After", 0)
            val seconds = header?.trim()?.toLongOrNull() ?: if (date > 0) maxOf(0, (date - System.currentTimeMillis()) / 1_000) else null
            val id = facts.optString("request_id", connection.getHeaderField("X-Request-Id").orEmpty())
            return Problem(status, facts, text, id, seconds)
        }
    }
}

/** There was no answer: the connection failed or broke, or the time was over. Its cause is the reason. */
class Disconnected internal constructor(message: String, override val mayHaveHappened: Boolean, cause: Throwable? = null) :
    FanfareException(message, cause) {
    override val passes: Boolean get() = true
}

/** There is no user token any more: nobody is logged in. */
class LoggedOut internal constructor() : FanfareException("nobody is logged in")
