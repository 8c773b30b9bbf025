import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// An answer that is a refusal: the problem document of the server (RFC 9457), or an error of a proxy in between.
public struct Problem: Error, Sendable {
    /// A field of a request that breaks a rule.
    public struct FieldError: Decodable, Sendable {
        /// The field's name in JSON, such as `recipients[3]`.
        public let field: String
        public let rule: String
        public let message: String
    }

    /// The HTTP status.
    public let status: Int
    /// What programs branch on, such as `sold_out`; "" if the answer came from a proxy.
    public let code: String
    /// A sentence for people.
    public let detail: String
    /// The fields that break a rule (`validation_failed`).
    public let errors: [FieldError]
    /// Whether the same call, unchanged, may succeed later.
    public let retryable: Bool
    /// Names the request in the server's log.
    public let requestID: String
    /// How many seconds to wait before the call is repeated.
    public let retryAfter: TimeInterval?
    /// The whole document, with facts such as `available` or `version`. It is no JSON if the answer came from a proxy.
    public let document: Data

    private struct Document: Decodable {
        let code: String?
        let detail: String?
        let errors: [FieldError]?
        let retryable: Bool?
        let requestId: String?
        let retryAfterMs: Double?
    }

    init(_ response: HTTPURLResponse, _ body: Data) {
        let isJSON = response.value(forHTTPHeaderField: "Content-Type")?.contains("json") == true
        let facts = isJSON ? try? JSON.decoder.decode(Document.self, from: body) : nil
        status = response.statusCode
        code = facts?.code ?? ""
        detail = facts?.detail ?? String(decoding: body.prefix(200), as: UTF8.self)
        errors = facts?.errors ?? []
        retryable = code.isEmpty ? [429, 502, 503, 504].contains(response.statusCode) : facts?.retryable == true
        requestID = facts?.requestId ?? response.value(forHTTPHeaderField: "X-Request-Id") ?? ""
        retryAfter = facts?.retryAfterMs.map { $0 / 1000 } ?? Problem.wait(response.value(forHTTPHeaderField: "Retry-After"))
        document = body
    }

    /// Reads a Retry-After: seconds, or a date.
    static func wait(_ header: String?) -> TimeInterval? {
        guard let text = header?.trimmingCharacters(in: .whitespaces), !text.isEmpty else { return nil }
        if let seconds = Int(text) { return max(0, TimeInterval(seconds)) }
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(identifier: "GMT")
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return format.date(from: text).map { max(0, $0.timeIntervalSinceNow) }
    }
}

/// There was no answer: the connection failed or broke, or the time was over.
public struct Disconnected: Error, Sendable {
    /// What failed, for people.
    public let reason: String
    /// false: the request certainly had no effect. true: it may have had one.
    public let mayHaveHappened: Bool
}

/// There is no user token any more: nobody is logged in.
public struct LoggedOut: Error, Sendable {}

/// The token of a stream has ended.
struct Ended: Error {
    let reason: String
}

extension Problem: LocalizedError {
    public var errorDescription: String? { "\(status) \(code.isEmpty ? "without a code" : code): \(detail)" }
}

extension Disconnected: LocalizedError {
    public var errorDescription: String? { reason }
}

extension LoggedOut: LocalizedError {
    public var errorDescription: String? { "nobody is logged in" }
}

/// Whether waiting a moment may help. A 409 such as `sold_out` is what the caller wanted to know: when to ask again is the
/// caller's choice.
func passes(_ error: Error) -> Bool {
    if let problem = error as? Problem { return problem.retryable && problem.status != 409 }
    return error is Disconnected || error is Ended
}

/// Whether a refused or unanswered call may have had an effect.
func mayHaveHappened(_ error: Error) -> Bool {
    if let problem = error as? Problem { return problem.status >= 500 && ["", "unknown_outcome", "internal"].contains(problem.code) }
    return (error as? Disconnected)?.mayHaveHappened ?? false
}

/// How many seconds to wait at least.
func leastWait(_ error: Error) -> TimeInterval { (error as? Problem)?.retryAfter ?? 0 }
