import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Where the server is, and how it is called.
struct Server: Sendable {
    let url: URL
    let tokens: Tokens
    let configuration: URLSessionConfiguration

    /// A request without its body. `target` is a path with its query, escaped.
    func request(_ method: String, _ target: String, _ token: String) throws -> URLRequest {
        let base = url.absoluteString.hasSuffix("/") ? String(url.absoluteString.dropLast()) : url.absoluteString
        guard let whole = URL(string: base + target) else { throw URLError(.badURL) }
        var request = URLRequest(url: whole)
        request.httpMethod = method
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        return request
    }
}

/// A call, as it is sent each time.
struct Call: Sendable {
    let method: String
    let target: String
    let body: Data?
    let idempotencyKey: String?
    /// How many seconds the server may wait before it answers.
    let wait: TimeInterval

    init(_ method: String, _ target: String, body: Data?, idempotencyKey: String?, wait: TimeInterval) {
        // The POSTs whose answer is a secret take no key.
        let secret = target.range(of: "^/v1/users/[^/]+/(tokens|tickets)$", options: .regularExpression) != nil
        (self.method, self.target, self.body, self.wait) = (method, target, body, wait)
        self.idempotencyKey = idempotencyKey ?? (method == "POST" && !secret ? UUID().uuidString : nil)
    }

    /// Whether doing it twice does no harm.
    var isRepeatable: Bool { method != "POST" || idempotencyKey != nil }
}

/// How often and how long a call is tried.
struct Limits: Sendable {
    let attempts: Int
    let timeout: TimeInterval
    let attemptTimeout: TimeInterval
}

extension Server {
    /// Makes a call, and repeats it where that is safe.
    func answer(_ call: Call, _ limits: Limits, _ session: URLSession) async throws -> Data {
        let end = uptime() + limits.timeout + call.wait
        var tries = 0, renewed = false
        while true {
            var token: String?
            let failure: Error
            do {
                let usable = try await tokens.get()
                token = usable
                return try await send(call, usable, within: min(limits.attemptTimeout + call.wait, end - uptime()), session)
            } catch {
                failure = error
            }
            if let token = token, !renewed, (failure as? Problem)?.status == 401 {
                await tokens.forget(token)
                renewed = true
                continue
            }
            let pause = backoff(tries, atLeast: leastWait(failure))
            tries += 1
            let late = tries >= limits.attempts || uptime() + pause >= end
            if late || !passes(failure) || (mayHaveHappened(failure) && !call.isRepeatable) { throw failure }
            try await Task.sleep(seconds: pause)
        }
    }

    private func send(_ call: Call, _ token: String, within: TimeInterval, _ session: URLSession) async throws -> Data {
        var request = try self.request(call.method, call.target, token)
        request.timeoutInterval = max(0.001, within)
        request.httpBody = call.body
        if call.body != nil { request.setValue("application/json", forHTTPHeaderField: "Content-Type") }
        if let key = call.idempotencyKey { request.setValue(key, forHTTPHeaderField: "Idempotency-Key") }
        let answer: (data: Data, response: URLResponse)
        do {
            answer = try await session.data(for: request)
        } catch let error as URLError where error.code != .cancelled {
            let reason = "\(call.method) \(call.target): \(error.localizedDescription)"
            throw Disconnected(reason: reason, mayHaveHappened: !neverSent.contains(error.code))
        }
        guard let http = answer.response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        guard (200..<300).contains(http.statusCode) else { throw Problem(http, answer.data) }
        return answer.data
    }
}

/// The failures that come before a request is sent.
private let neverSent: Set<URLError.Code> = [
    .cannotFindHost, .cannotConnectToHost, .dnsLookupFailed, .notConnectedToInternet, .dataNotAllowed, .internationalRoamingOff,
    .callIsActive, .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
    .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .appTransportSecurityRequiresSecureConnection,
]

/// Puts parameters into a path, and a query behind it. What is nil in the query is left out.
func target(_ path: String, _ params: [String: String], _ query: [String: String?]) -> String {
    var filled = path
    for (name, value) in params where filled.contains("{\(name)}") {
        precondition(!["", ".", ".."].contains(value), "\(path): \(name) can't be \"\(value)\"")
        filled = filled.replacingOccurrences(of: "{\(name)}", with: escape(value))
    }
    let given = query.compactMap { name, value in value.map { "\(escape(name))=\(escape($0))" } }.sorted()
    return given.isEmpty ? filled : filled + "?" + given.joined(separator: "&")
}

private func escape(_ text: String) -> String {
    let plain = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
    return text.addingPercentEncoding(withAllowedCharacters: plain) ?? text
}

/// A clock that nobody sets, in seconds.
func uptime() -> TimeInterval { ProcessInfo.processInfo.systemUptime }

extension Task where Success == Never, Failure == Never {
    static func sleep(seconds: TimeInterval) async throws {
        try await sleep(nanoseconds: UInt64(max(0, seconds) * 1_000_000_000))
    }
}

/// Seconds before repetition n (0, 1, 2 ...): exponential, with full jitter, on top of what the server asks for.
func backoff(_ n: Int, atLeast least: TimeInterval) -> TimeInterval {
    least + TimeInterval.random(in: 0...min(10, 0.5 * pow(2, TimeInterval(min(n, 10)))))
}
