import Foundation

/// A sale and its stock.
public struct Sale: Decodable, Sendable {
    public struct Item: Decodable, Sendable {
        public let sku: String
        public let total: Int
        public let available: Int
    }

    public let id: String
    /// upcoming, open, sold_out or ended.
    public let state: String
    public let items: [Item]
    public let startsAt: Date
    public let endsAt: Date
}

/// The event "stock" of a sale's stream.
public struct Stock: Decodable, Sendable {
    /// By sku.
    public let available: [String: Int]
    public let state: String
}

/// Units that a user has reserved.
public struct Reservation: Decodable, Sendable {
    public struct Line: Codable, Sendable {
        public let sku: String
        public let quantity: Int

        public init(sku: String, quantity: Int) {
            (self.sku, self.quantity) = (sku, quantity)
        }
    }

    public let id: String
    public let lines: [Line]
    /// held, sold, released or expired.
    public let state: String
    public let expiresAt: Date?
}

extension Client {
    /// Reads a sale and its stock.
    public func getSale(_ sale: String) async throws -> Sale {
        try await answer(Sale.self, "GET", "/v1/sales/{sale}", params: ["sale": sale])
    }

    /// Follows the stock of a sale: events "stock".
    public func streamSale(_ sale: String, _ options: StreamOptions = StreamOptions()) -> AsyncThrowingStream<StreamEvent, Error> {
        stream("/v1/sales/{sale}/stream", ["sale": sale], options)
    }

    /// Reserves units. Keep one `idempotencyKey` for each wish of the user: a second tap then reserves nothing more.
    public func postReservation(_ sale: String, _ lines: [Reservation.Line], idempotencyKey: String? = nil) async throws -> Reservation {
        struct Body: Encodable {
            let user: String
            let lines: [Reservation.Line]
        }
        let body = try JSON.encoder.encode(Body(user: user, lines: lines))
        return try await answer(
            Reservation.self, "POST", "/v1/sales/{sale}/reservations", params: ["sale": sale], body: body, idempotencyKey: idempotencyKey)
    }

    /// Gives back what is reserved.
    @discardableResult
    public func releaseReservation(_ sale: String, _ id: String) async throws -> Reservation {
        try await answer(
            Reservation.self, "POST", "/v1/sales/{sale}/reservations/{id}/release", params: ["sale": sale, "id": id])
    }
}
