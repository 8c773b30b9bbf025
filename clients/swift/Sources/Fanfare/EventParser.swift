import Foundation

/// Reads server-sent events from bytes that come in pieces.
struct EventParser {
    struct Raw: Equatable {
        let event: String
        let data: String
        let id: String
    }

    /// The id of the last whole event.
    private(set) var id: String
    /// How many seconds after its end the stream may be opened again, if the server said so.
    private(set) var retry: TimeInterval?

    private var line: [UInt8] = []
    private var afterReturn = false
    private var event = ""
    private var data: [String] = []
    private var nextID: String

    /// `id` is the one after which the stream was opened.
    init(id: String) {
        (self.id, nextID) = (id, id)
    }

    /// Takes a piece, and gives the events that are whole now.
    mutating func push(_ piece: Data) -> [Raw] {
        var whole: [Raw] = []
        for byte in piece {
            let secondHalf = afterReturn && byte == UInt8(ascii: "\n")
            afterReturn = byte == UInt8(ascii: "\r")
            if secondHalf { continue }
            guard byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") else {
                line.append(byte)
                continue
            }
            if !line.isEmpty {
                field()
            } else if let raw = finish() {
                whole.append(raw)
            }
            line.removeAll(keepingCapacity: true)
        }
        return whole
    }

    private mutating func finish() -> Raw? {
        id = nextID
        defer { (event, data) = ("", []) }
        return data.isEmpty ? nil : Raw(event: event.isEmpty ? "message" : event, data: data.joined(separator: "\n"), id: id)
    }

    private mutating func field() {
        // Bytes, because a colon and a mark that combines with it would be one Character.
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        var bytes = parts.count > 1 ? parts[1] : []
        if bytes.first == UInt8(ascii: " ") { bytes.removeFirst() }
        let value = String(decoding: bytes, as: UTF8.self)
        switch String(decoding: parts[0], as: UTF8.self) {
        case "event": event = value
        case "data": data.append(value)
        case "id" where !value.contains("\0"): nextID = value
        case "retry": if let ms = UInt32(value) { retry = TimeInterval(ms) / 1000 }
        default: break
        }
    }
}
