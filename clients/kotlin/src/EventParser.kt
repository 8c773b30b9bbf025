package fanfare

import java.io.ByteArrayOutputStream

/** Reads server-sent events from bytes that come in pieces. [id] is the one after which the stream was opened. */
internal class EventParser(id: String) {
    class Raw(val event: String, val data: String, val id: String)

    /** The id of the last whole event. */
    var id: String = id
        private set

    /** How many milliseconds after its end the stream may be opened again, if the server said so. */
    var retry: Long? = null
        private set

    private companion object {
        const val LF = 10
        const val CR = 13
    }

    private val line = ByteArrayOutputStream()
    private var afterReturn = false
    private var event = ""
    private var data: StringBuilder? = null
    private var nextId = id

    /** Takes the first [size] bytes of a piece, and gives the events that are whole now. */
    fun push(piece: ByteArray, size: Int): List<Raw> {
        val whole = ArrayList<Raw>()
        for (i in 0 until size) {
            val byte = piece[i].toInt()
            val secondHalf = afterReturn && byte == LF
            afterReturn = byte == CR
            if (secondHalf) continue
            if (byte != LF && byte != CR) {
                line.write(byte)
                continue
            }
            val text = String(line.toByteArray(), Charsets.UTF_8)
            line.reset()
            if (text.isEmpty()) finish()?.let { whole.add(it) } else field(text)
        }
        return whole
    }

    private fun finish(): Raw? {
        id = nextId
        val raw = data?.let { Raw(if (event.isEmpty()) "message" else event, it.toString(), id) }
        event = ""
        data = null
        return raw
    }

    private fun field(line: String) {
        val value = line.substringAfter(':', "").removePrefix(" ")
        when (line.substringBefore(':')) {
            "event" -> event = value
            "data" -> data = data?.append('\n')?.append(value) ?: StringBuilder(value)
            "id" -> if ('\u0000' !in value) nextId = value
            "retry" -> value.toLongOrNull()?.let { if (it >= 0) retry = it }
        }
    }
}
