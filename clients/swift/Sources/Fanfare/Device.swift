import Foundation

/// A registered device.
public struct Device: Decodable, Sendable {
    public let token: String
    public let platform: String
    public let topic: String
    public let environment: String?
    public let locale: String?
    /// active, suspect or dropped.
    public let state: String
    public let registeredAt: Date
}

/// What a user wants to be told, and where.
public struct NotificationSettings: Decodable, Sendable {
    public struct Mute: Decodable, Sendable {
        public let object: String
        /// nil: for good.
        public let until: Date?
    }

    public let optOuts: [String]
    public let mutes: [Mute]
    public let devices: [Device]
}

/// The number on the icon of a user's apps.
public struct Badge: Decodable, Sendable {
    public let count: Int
    /// It rises with each change; 0: there is no badge.
    public let version: Int
    /// When it began at 0. A later time than before says that the server had lost it.
    public let since: Date?
}

/// A topic that the user is in.
public struct UserTopic: Decodable, Sendable {
    public let topic: String
    public let joinedAt: Date
}

/// A page of a list.
public struct Page<Item: Decodable & Sendable>: Decodable, Sendable {
    public let items: [Item]
    /// The cursor of the next page; nil on the last page.
    public let next: String?
}

/// Where APNs issued a device's token.
public enum APNsEnvironment: String, Codable, Sendable {
    /// Builds from TestFlight and the App Store.
    case production
    /// Builds that run from Xcode.
    case sandbox
}

extension Client {
    /// Registers this phone: at each start, with the token that APNs gave.
    ///
    /// - Parameters:
    ///   - token: in hex, see `hex`
    ///   - topic: the app's bundle id
    ///   - locale: chooses the texts of notifications
    ///   - replaces: the token that this phone had before, which is removed: so nobody is told twice
    @discardableResult
    public func putDevice(
        _ token: String, topic: String, environment: APNsEnvironment, locale: String? = Locale.preferredLanguages.first, replaces: String? = nil
    ) async throws -> Device {
        struct Body: Encodable {
            let platform = "apns"
            let topic: String
            let environment: APNsEnvironment
            let locale: String?
            let replaces: String?
        }
        let body = Body(topic: topic, environment: environment, locale: locale, replaces: replaces == token ? nil : replaces)
        return try await answer(Device.self, "PUT", "/v1/users/{user}/devices/{token}", params: ["token": token], body: JSON.encoder.encode(body))
    }

    /// Removes this phone: at the logout, before the token ends.
    public func deleteDevice(_ token: String) async throws {
        try await call("DELETE", "/v1/users/{user}/devices/{token}", params: ["token": token])
    }

    /// A token of APNs as fanfare writes it.
    public static func hex(_ token: Data) -> String {
        token.map { String(format: "%02x", $0) }.joined()
    }

    /// Lists the user's opt-outs, mutes and devices.
    public func getNotificationSettings() async throws -> NotificationSettings {
        try await answer(NotificationSettings.self, "GET", "/v1/users/{user}/notification-settings")
    }

    /// Stops notifications of a type.
    public func putOptOut(_ type: String) async throws {
        try await call("PUT", "/v1/users/{user}/opt-outs/{type}", params: ["type": type])
    }

    /// Lets notifications of a type come again.
    public func deleteOptOut(_ type: String) async throws {
        try await call("DELETE", "/v1/users/{user}/opt-outs/{type}", params: ["type": type])
    }

    /// Stops notifications about an object, such as "chat:team", until a time or for good.
    public func putMute(_ object: String, until: Date? = nil) async throws {
        struct Body: Encodable { let until: Date }
        let body = try until.map { try JSON.encoder.encode(Body(until: $0)) }
        try await call("PUT", "/v1/users/{user}/mutes/{object}", params: ["object": object], body: body)
    }

    /// Lets notifications about an object come again.
    public func deleteMute(_ object: String) async throws {
        try await call("DELETE", "/v1/users/{user}/mutes/{object}", params: ["object": object])
    }

    /// Reads the number on the icon of the user's apps.
    public func getBadge() async throws -> Badge {
        try await answer(Badge.self, "GET", "/v1/users/{user}/badge")
    }

    /// Sets it: to 0 when the user has seen everything. With `clear` the user's other iPhones show it at once.
    @discardableResult
    public func putBadge(_ count: Int, clear: Bool = false) async throws -> Badge {
        struct Body: Encodable {
            let count: Int
            let clear: Bool
        }
        return try await answer(Badge.self, "PUT", "/v1/users/{user}/badge", body: JSON.encoder.encode(Body(count: count, clear: clear)))
    }

    /// Adds to it: -1 when the user has seen one thing.
    @discardableResult
    public func postBadge(_ delta: Int, idempotencyKey: String? = nil) async throws -> Badge {
        struct Body: Encodable { let delta: Int }
        let body = try JSON.encoder.encode(Body(delta: delta))
        return try await answer(Badge.self, "POST", "/v1/users/{user}/badge", body: body, idempotencyKey: idempotencyKey)
    }

    /// Says that the user opened a notification, which counts once for each event. `event` is the `event_id` of its payload,
    /// and `token` that of this phone, if the backend wants to know on which one it was.
    public func postOpened(_ event: String, token: String? = nil) async throws {
        try await call("POST", "/v1/events/{id}/opened", params: ["id": event], body: opening(token))
    }

    /// Says that the user dismissed it.
    public func postDismissed(_ event: String, token: String? = nil) async throws {
        try await call("POST", "/v1/events/{id}/dismissed", params: ["id": event], body: opening(token))
    }

    private func opening(_ token: String?) throws -> Data {
        struct Body: Encodable {
            let user: String
            let token: String?
        }
        return try JSON.encoder.encode(Body(user: user, token: token))
    }

    /// Lists the topics that the user is in.
    public func listUserTopics(limit: Int? = nil, cursor: String? = nil) async throws -> Page<UserTopic> {
        try await answer(Page<UserTopic>.self, "GET", "/v1/users/{user}/topics", query: ["limit": limit.map(String.init), "cursor": cursor])
    }

    /// Joins a topic that the backend has opened: events to it reach the user.
    public func joinTopic(_ topic: String) async throws {
        try await call("PUT", "/v1/users/{user}/topics/{topic}", params: ["topic": topic])
    }

    /// Leaves a topic.
    public func leaveTopic(_ topic: String) async throws {
        try await call("DELETE", "/v1/users/{user}/topics/{topic}", params: ["topic": topic])
    }
}
