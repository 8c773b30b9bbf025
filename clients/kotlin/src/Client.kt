package fanfare

import org.json.JSONArray
import org.json.JSONObject
import java.text.SimpleDateFormat
import java.util.Date
import java.util.Locale
import java.util.TimeZone

/**
 * A client of fanfare for an app that calls for one user, with a user token. Threads share it. Its calls block: make them
 * outside of the main thread. Its methods are named after the operations of /openapi.json, and [call] makes any other call.
 *
 * A call without an answer, and a problem that passes, such as "overloaded", is repeated after a growing random pause and at
 * least Retry-After, a POST under one Idempotency-Key. What is refused is thrown as [Problem], and [Disconnected] says that
 * there was no answer.
 *
 * @param url where the server is, such as "https://push.example.com"; a path in front of /v1 is possible
 * @param user the user whose token it is
 * @param token gets a user token from the app's backend, a fresh one each time; null: nobody is logged in. It is called at
 * first, and whenever its last token has ended
 * @param attempts how often a call is tried
 * @param timeoutMillis how long a call may take with all its repeats
 * @param attemptTimeoutMillis how long one try may take, beside the time that a call waits for messages
 */
class Client(
    url: String,
    val user: String,
    token: () -> String?,
    private val attempts: Int = 5,
    private val timeoutMillis: Long = 60_000,
    private val attemptTimeoutMillis: Long = 10_000
) {
    private val transport = Transport(url)
    private val tokens = Tokens(token)

    /**
     * Makes a call, and returns its JSON, or null for an answer without a body.
     *
     * @param params the values of {name} in the path, which are escaped; {user} is this client's user
     * @param query what is null in it is left out
     * @param idempotencyKey of a POST, if the app may end and call again; without one each call has a new one
     */
    fun call(
        method: String,
        path: String,
        params: Map<String, String> = emptyMap(),
        query: Map<String, Any?> = emptyMap(),
        body: JSONObject? = null,
        idempotencyKey: String? = null
    ): JSONObject? {
        val wait = (query["wait_ms"] as? Number)?.toLong() ?: 0
        val request = Request(method, target(path, params + ("user" to user), query), body, idempotencyKey, wait)
        val end = now() + timeoutMillis + wait
        var tries = 0
        var renewed = false
        while (true) {
            var token: String? = null
            val failure = try {
                token = tokens.get()
                return transport.send(request, token, minOf(attemptTimeoutMillis + wait, end - now()))
            } catch (err: FanfareException) {
                err
            }
            if (token != null && failure is Problem && failure.status == 401 && !renewed) {
                tokens.forget(token)
                renewed = true
                continue
            }
            val pause = backoff(tries++, failure.waitMillis)
            val late = tries >= attempts || now() + pause >= end
            if (late || !failure.passes || failure.mayHaveHappened && !request.repeatable) throw failure
            Thread.sleep(pause)
        }
    }

    // This phone, and what the user wants to be told

    /**
     * Registers this phone, at each start and when Firebase gives the app another token.
     *
     * @param token the registration token of Firebase
     * @param topic the app, as the server's list of apps calls it
     * @param locale chooses the texts of notifications
     * @param replaces the token that this phone had before, which is removed: so nobody is told twice
     */
    fun putDevice(
        token: String,
        topic: String,
        locale: String? = Locale.getDefault().toLanguageTag(),
        replaces: String? = null
    ): JSONObject {
        val body = json("platform" to "fcm", "topic" to topic, "locale" to locale, "replaces" to replaces.takeIf { it != token })
        return answer("PUT", "/v1/users/{user}/devices/{token}", mapOf("token" to token), body = body)
    }

    /** Removes this phone: at the logout, before the token ends. */
    fun deleteDevice(token: String) = send("DELETE", "/v1/users/{user}/devices/{token}", mapOf("token" to token))

    /** Lists the user's opt-outs, mutes and devices. */
    fun getNotificationSettings(): JSONObject = answer("GET", "/v1/users/{user}/notification-settings")

    /** Stops notifications of a type. */
    fun putOptOut(type: String) = send("PUT", "/v1/users/{user}/opt-outs/{type}", mapOf("type" to type))

    /** Lets notifications of a type come again. */
    fun deleteOptOut(type: String) = send("DELETE", "/v1/users/{user}/opt-outs/{type}", mapOf("type" to type))

    /** Stops notifications about an object, such as "chat:team", until a time or for good. */
    fun putMute(obj: String, until: Date? = null) =
        send("PUT", "/v1/users/{user}/mutes/{object}", mapOf("object" to obj), until?.let { json("until" to rfc3339(it)) })

    /** Lets notifications about an object come again. */
    fun deleteMute(obj: String) = send("DELETE", "/v1/users/{user}/mutes/{object}", mapOf("object" to obj))

    /** Reads the number on the icon of the user's apps, `count`. */
    fun getBadge(): JSONObject = answer("GET", "/v1/users/{user}/badge")

    /** Sets it: to 0 when the user has seen everything. With [clear] the user's iPhones show it at once. */
    fun putBadge(count: Int, clear: Boolean = false): JSONObject =
        answer("PUT", "/v1/users/{user}/badge", body = json("count" to count, "clear" to clear))

    /** Adds to it: -1 when the user has seen one thing. */
    fun postBadge(delta: Int, idempotencyKey: String? = null): JSONObject =
        answer("POST", "/v1/users/{user}/badge", body = json("delta" to delta), key = idempotencyKey)

    /**
     * Says that the user opened a notification, which counts once for each event.
     *
     * @param event the `event_id` of the notification's data
     * @param token that of this phone, if the backend wants to know on which one it was
     */
    fun postOpened(event: String, token: String? = null) = tellOpened("/v1/events/{event}/opened", event, token)

    /** Says that the user dismissed it. */
    fun postDismissed(event: String, token: String? = null) = tellOpened("/v1/events/{event}/dismissed", event, token)

    private fun tellOpened(path: String, event: String, token: String?) =
        send("POST", path, mapOf("event" to event), json("user" to user, "token" to token))

    /** Lists the topics that the user is in. */
    fun listUserTopics(limit: Int? = null, cursor: String? = null): JSONObject =
        answer("GET", "/v1/users/{user}/topics", query = mapOf("limit" to limit, "cursor" to cursor))

    /** Joins a topic that the backend has opened: events to it reach the user. */
    fun joinTopic(topic: String) = send("PUT", "/v1/users/{user}/topics/{topic}", mapOf("topic" to topic))

    /** Leaves a topic. */
    fun leaveTopic(topic: String) = send("DELETE", "/v1/users/{user}/topics/{topic}", mapOf("topic" to topic))

    // Chat

    /** Lists the user's chats, with what is unread in each. */
    fun listUserChats(limit: Int? = null, cursor: String? = null): JSONObject =
        answer("GET", "/v1/users/{user}/chats", query = mapOf("limit" to limit, "cursor" to cursor))

    /** Reads messages of a chat: those after an id, or the newest before one. */
    fun listMessages(chat: String, after: Long? = null, before: Long? = null, limit: Int? = null, epoch: String? = null): JSONObject {
        val query = mapOf("user" to user, "after" to after, "before" to before, "limit" to limit, "epoch" to epoch)
        return answer("GET", "/v1/chats/{chat}/messages", mapOf("chat" to chat), query)
    }

    /** Lists the messages that the user has not acknowledged, in all chats. It waits for one if there is none. */
    fun getPendingMessages(waitMillis: Int = 0, limit: Int? = null): JSONObject =
        answer("GET", "/v1/users/{user}/messages/pending", query = mapOf("wait_ms" to waitMillis.takeIf { it > 0 }, "limit" to limit))

    /** Acknowledges what the user has read: the last message's id, by chat. */
    fun ackMessages(acks: Map<String, Long>): JSONObject =
        answer("POST", "/v1/users/{user}/messages/ack", body = json("acks" to JSONObject(acks)))

    /** Sends a message. Keep one [idempotencyKey] for each press of Send until the answer is there. */
    fun postMessage(chat: String, text: String, data: Map<String, String>? = null, idempotencyKey: String? = null): JSONObject {
        val body = json("sender" to user, "text" to text, "data" to data?.let { JSONObject(it) })
        return answer("POST", "/v1/chats/{chat}/messages", mapOf("chat" to chat), body = body, key = idempotencyKey)
    }

    /** Takes back a message of the user: its text and data are gone. */
    fun deleteMessage(chat: String, id: Long) =
        send("DELETE", "/v1/chats/{chat}/messages/{id}", mapOf("chat" to chat, "id" to id.toString()))

    /** Leaves a chat. */
    fun leaveChat(chat: String) = send("DELETE", "/v1/chats/{chat}/members/{user}", mapOf("chat" to chat))

    /** Follows all chats of the user: events "message", "redacted" and "gap". */
    fun streamMessages(options: StreamOptions = StreamOptions()): Stream = stream("/v1/users/{user}/messages/stream", emptyMap(), options)

    // Flash sale

    /** Reads a sale and its stock. */
    fun getSale(sale: String): JSONObject = answer("GET", "/v1/sales/{sale}", mapOf("sale" to sale))

    /** Follows the stock of a sale: events "stock". */
    fun streamSale(sale: String, options: StreamOptions = StreamOptions()): Stream =
        stream("/v1/sales/{sale}/stream", mapOf("sale" to sale), options)

    /** Reserves units, by sku. Keep one [idempotencyKey] for each wish of the user: a second click then reserves nothing more. */
    fun postReservation(sale: String, quantities: Map<String, Int>, idempotencyKey: String? = null): JSONObject {
        val lines = JSONArray(quantities.map { (sku, quantity) -> json("sku" to sku, "quantity" to quantity) })
        val body = json("user" to user, "lines" to lines)
        return answer("POST", "/v1/sales/{sale}/reservations", mapOf("sale" to sale), body = body, key = idempotencyKey)
    }

    /** Gives back what is reserved. */
    fun releaseReservation(sale: String, id: String): JSONObject =
        answer("POST", "/v1/sales/{sale}/reservations/{id}/release", mapOf("sale" to sale, "id" to id))

    private fun stream(path: String, params: Map<String, String>, options: StreamOptions): Stream =
        Stream(transport, tokens, target(path, params + ("user" to user), emptyMap()), options.lastEventId, options)

    private fun answer(
        method: String,
        path: String,
        params: Map<String, String> = emptyMap(),
        query: Map<String, Any?> = emptyMap(),
        body: JSONObject? = null,
        key: String? = null
    ): JSONObject = call(method, path, params, query, body, key) ?: throw FanfareException("$method $path: the answer is empty")

    private fun send(method: String, path: String, params: Map<String, String>, body: JSONObject? = null) {
        call(method, path, params, body = body)
    }
}

/** An object without the members that are null. */
internal fun json(vararg members: Pair<String, Any?>): JSONObject {
    val made = JSONObject()
    for ((name, value) in members) if (value != null) made.put(name, value)
    return made
}

private fun rfc3339(time: Date): String {
    val format = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", Locale.ROOT)
    format.timeZone = TimeZone.getTimeZone("UTC")
    return format.format(time)
}
