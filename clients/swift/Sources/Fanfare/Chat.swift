import Foundation

/// A message.
public struct Message: Decodable, Sendable {
    /// The chat, in events of a stream.
    public let chat: String?
    /// Rises by one in its chat.
    public let id: Int
    /// "" if the user who sent it was erased.
    public let sender: String
    public let text: String
    public let data: [String: String]?
    /// true: text and data were taken back.
    public let redacted: Bool?
    public let sentAt: Date
}

/// The event "redacted" of a stream: a message that was sent before lost its text and data.
public struct Redacted: Decodable, Sendable {
    public let chat: String
    public let id: Int
}

/// The event "gap" of a stream: messages before `firstId` are no longer kept.
public struct Gap: Decodable, Sendable {
    public let chat: String
    public let firstId: Int
    public let epoch: String
}

/// A chat of a user.
public struct UserChat: Decodable, Sendable {
    public let id: String
    public let unread: Int
    public let lastId: Int
    public let acked: Int
}

/// What a user has not acknowledged.
public struct PendingMessages: Decodable, Sendable {
    public struct Chat: Decodable, Sendable {
        public let id: String
        public let epoch: String
        public let unread: Int
        /// true: messages before `firstId` are no longer kept.
        public let gap: Bool
        public let firstId: Int
        public let items: [Message]
    }

    public let chats: [Chat]
    /// true: more messages wait. Acknowledge these and ask again.
    public let more: Bool?
}

/// Messages of a chat, ascending.
public struct Messages: Decodable, Sendable {
    public let items: [Message]
    public let lastId: Int
    public let firstId: Int
    public let epoch: String
    public let gap: Bool
}

/// The answer to a message.
public struct MessageSent: Decodable, Sendable {
    public let id: Int
    public let sentAt: Date
}

/// Positions of a user, by chat.
public struct Acked: Decodable, Sendable {
    public let acked: [String: Int]
}

extension Client {
    /// Lists the user's chats, with what is unread in each.
    public func listUserChats(limit: Int? = nil, cursor: String? = nil) async throws -> Page<UserChat> {
        try await answer(Page<UserChat>.self, "GET", "/v1/users/{user}/chats", query: ["limit": limit.map(String.init), "cursor": cursor])
    }

    /// Reads messages of a chat: those after an id, or the newest before one.
    public func listMessages(
        _ chat: String, after: Int? = nil, before: Int? = nil, limit: Int? = nil, epoch: String? = nil
    ) async throws -> Messages {
        let query: [String: String?] = [
            "user": user, "after": after.map(String.init), "before": before.map(String.init), "limit": limit.map(String.init), "epoch": epoch,
        ]
        return try await answer(Messages.self, "GET", "/v1/chats/{chat}/messages", params: ["chat": chat], query: query)
    }

    /// Lists the messages that the user has not acknowledged, in all chats. It waits for one for `wait` seconds, 30 at most.
    public func getPendingMessages(wait: TimeInterval = 0, limit: Int? = nil) async throws -> PendingMessages {
        let query: [String: String?] = ["wait_ms": wait > 0 ? String(Int(wait * 1000)) : nil, "limit": limit.map(String.init)]
        return try await answer(PendingMessages.self, "GET", "/v1/users/{user}/messages/pending", query: query)
    }

    /// Acknowledges what the user has read: the last message's id, by chat.
    @discardableResult
    public func ackMessages(_ acks: [String: Int]) async throws -> Acked {
        struct Body: Encodable { let acks: [String: Int] }
        return try await answer(Acked.self, "POST", "/v1/users/{user}/messages/ack", body: JSON.encoder.encode(Body(acks: acks)))
    }

    /// Sends a message. Keep one `idempotencyKey` for each press of Send until the answer is there.
    @discardableResult
    public func postMessage(
        _ chat: String, _ text: String, data: [String: String]? = nil, idempotencyKey: String? = nil
    ) async throws -> MessageSent {
        struct Body: Encodable {
            let sender: String
            let text: String
            let data: [String: String]?
        }
        let body = try JSON.encoder.encode(Body(sender: user, text: text, data: data))
        return try await answer(
            MessageSent.self, "POST", "/v1/chats/{chat}/messages", params: ["chat": chat], body: body, idempotencyKey: idempotencyKey)
    }

    /// Takes back a message of the user: its text and data are gone.
    public func deleteMessage(_ chat: String, _ id: Int) async throws {
        try await call("DELETE", "/v1/chats/{chat}/messages/{id}", params: ["chat": chat, "id": String(id)])
    }

    /// Leaves a chat.
    public func leaveChat(_ chat: String) async throws {
        try await call("DELETE", "/v1/chats/{chat}/members/{user}", params: ["chat": chat])
    }

    /// Follows all chats of the user: events "message", "redacted" and "gap".
    public func streamMessages(_ options: StreamOptions = StreamOptions()) -> AsyncThrowingStream<StreamEvent, Error> {
        stream("/v1/users/{user}/messages/stream", [:], options)
    }
}
