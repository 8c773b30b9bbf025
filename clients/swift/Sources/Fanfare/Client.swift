import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A client of fanfare for an app that calls for one user, with a user token. Its methods are named after the operations of
/// /openapi.json, and `call` makes any other call.
///
/// A call without an answer, and a problem that passes, such as `overloaded`, is repeated after a growing random pause and at
/// least Retry-After, a POST under one Idempotency-Key. What is refused is thrown as `Problem`, and `Disconnected` says that
/// there was no answer. All times are in seconds.
public final class Client: Sendable {
    /// The user for whom it calls.
    public let user: String
    private let server: Server
    private let session: URLSession
    private let limits: Limits

    /// - Parameters:
    ///   - url: where the server is, such as https://push.example.com; a path in front of /v1 is possible
    ///   - user: the user whose token it is
    ///   - attempts: how often a call is tried
    ///   - timeout: how long a call may take with all its repeats
    ///   - attemptTimeout: how long one try may go without a byte, beside the time that a call waits for messages
    ///   - configuration: of the connections
    ///   - token: gets a user token from the app's backend, a fresh one each time; nil: nobody is logged in. It is called at
    ///     first, and whenever its last token has ended
    public init(
        url: URL,
        user: String,
        attempts: Int = 5,
        timeout: TimeInterval = 60,
        attemptTimeout: TimeInterval = 10,
        configuration: URLSessionConfiguration = .ephemeral,
        token: @escaping @Sendable () async throws -> String?
    ) {
        self.user = user
        server = Server(url: url, tokens: Tokens(token), configuration: configuration)
        session = URLSession(configuration: configuration)
        limits = Limits(attempts: attempts, timeout: timeout, attemptTimeout: attemptTimeout)
    }

    deinit { session.finishTasksAndInvalidate() }

    /// Makes a call, and returns its JSON, or no bytes for an answer without a body.
    ///
    /// - Parameters:
    ///   - params: the values of {name} in the path, which are escaped; {user} is this client's user
    ///   - query: what is nil in it is left out
    ///   - idempotencyKey: of a POST, if the app may end and call again; without one each call has a new one
    @discardableResult
    public func call(
        _ method: String,
        _ path: String,
        params: [String: String] = [:],
        query: [String: String?] = [:],
        body: Data? = nil,
        idempotencyKey: String? = nil
    ) async throws -> Data {
        let wait = (query["wait_ms"] ?? nil).flatMap { TimeInterval($0) } ?? 0
        let whole = target(path, params.merging(["user": user]) { given, _ in given }, query)
        let call = Call(method, whole, body: body, idempotencyKey: idempotencyKey, wait: wait / 1000)
        return try await server.answer(call, limits, session)
    }

    func answer<T: Decodable>(
        _ type: T.Type,
        _ method: String,
        _ path: String,
        params: [String: String] = [:],
        query: [String: String?] = [:],
        body: Data? = nil,
        idempotencyKey: String? = nil
    ) async throws -> T {
        let data = try await call(method, path, params: params, query: query, body: body, idempotencyKey: idempotencyKey)
        return try JSON.decoder.decode(type, from: data)
    }

    func stream(_ path: String, _ params: [String: String], _ options: StreamOptions) -> AsyncThrowingStream<StreamEvent, Error> {
        server.stream(target(path, params.merging(["user": user]) { given, _ in given }, [:]), options)
    }
}
